lfarm_test(egraph LABEL unit
  SOURCES egraph_core_test.cc egraph_rules_test.cc egraph_runner_test.cc egraph_extraction_test.cc
          egraph_explain_test.cc
  COMPONENTS coordinator/egraph common/base)
