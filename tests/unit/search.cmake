lfarm_test(search LABEL unit TIMEOUT 1800
  SOURCES search_attention_test.cc search_choice_test.cc search_tuning_records_test.cc search_layout_test.cc search_rules_test.cc
          search_programs_test.cc search_job_test.cc search_load_time_test.cc search_profile_test.cc
          search_stores_test.cc search_strips_test.cc search_traits_test.cc
          program_interpreter.cc
  COMPONENTS common/base common/ir common/runtime coordinator/search coordinator/rules clients/pt2)
lfarm_test(search_genomes LABEL unit TIMEOUT 1800
  SOURCES search_genomes_test.cc program_interpreter.cc
          ${CMAKE_SOURCE_DIR}/tests/bench/genome_trials.cc
  COMPONENTS common/base common/ir common/runtime coordinator/search coordinator/rules
             coordinator/egraph clients/pt2)
target_include_directories(test_search_genomes PRIVATE ${CMAKE_SOURCE_DIR})
