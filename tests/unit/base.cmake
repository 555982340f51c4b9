lfarm_test(base LABEL unit SOURCES pausable_groups_test.cc processors_test.cc rank_correlation_test.cc COMPONENTS common/base)
lfarm_test(own_directory LABEL unit SOURCES own_directory_test.cc COMPONENTS common/base)
lfarm_test(pipe LABEL unit SOURCES pipe_test.cc COMPONENTS common/base)
lfarm_test(sandbox_attempts LABEL unit SOURCES sandbox_attempts_test.cc COMPONENTS common/base common/sandbox)
lfarm_test(sandbox LABEL unit SOURCES sandbox_test.cc COMPONENTS common/base common/sandbox)
lfarm_test(log LABEL unit SOURCES log_test.cc COMPONENTS common/base
  LIBRARIES nlohmann_json::nlohmann_json)
