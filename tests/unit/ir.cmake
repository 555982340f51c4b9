lfarm_test(ir LABEL unit
  SOURCES expr_test.cc view_test.cc graph_test.cc graph_checks_test.cc roll_test.cc tile_form_test.cc verify_test.cc
  COMPONENTS common/base common/ir)
lfarm_test(io_profile LABEL unit SOURCES io_profile_test.cc COMPONENTS common/plan)
