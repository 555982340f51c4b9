lfarm_test(rules LABEL unit TIMEOUT 1800
  SOURCES rules_soundness_test.cc rules_cases.cc rules_cases_movement.cc rules_cases_contraction.cc
          rules_cases_norm.cc rules_near_misses.cc rules_cases_fourier.cc rules_cases_layout.cc
          rules_cases_positions.cc rules_cases_routing.cc
  COMPONENTS common/base common/ir common/runtime coordinator/egraph coordinator/rules
             coordinator/search clients/pt2)
