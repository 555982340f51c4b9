lfarm_test(codegen_loops LABEL unit SOURCES codegen_loops_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
