lfarm_test(cli_commands LABEL unit SOURCES cli_commands_test.cc COMPONENTS clients/cli)
lfarm_test(key_difference LABEL unit SOURCES key_difference_test.cc COMPONENTS clients/cli)
lfarm_test(json_fields LABEL unit SOURCES json_fields_test.cc COMPONENTS clients/cli)
lfarm_test(progress LABEL unit SOURCES progress_test.cc COMPONENTS clients/cli)
