lfarm_test(cli_commands LABEL unit SOURCES cli_commands_test.cc COMPONENTS clients/cli)
