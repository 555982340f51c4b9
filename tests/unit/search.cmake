lfarm_test(search LABEL unit TIMEOUT 300
  SOURCES search_rules_test.cc search_programs_test.cc search_job_test.cc program_interpreter.cc
  COMPONENTS common/base common/ir common/runtime coordinator/search coordinator/rules clients/pt2)
