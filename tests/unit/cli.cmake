lfarm_test(cli_commands LABEL unit SOURCES cli_commands_test.cc COMPONENTS clients/cli)
lfarm_test(key_difference LABEL unit SOURCES key_difference_test.cc COMPONENTS clients/cli)
