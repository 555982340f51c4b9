lfarm_test(codegen_loops LABEL unit SOURCES codegen_loops_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
lfarm_test(codegen_ops LABEL unit TIMEOUT 600 SOURCES codegen_ops_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
lfarm_test(codegen_tile LABEL unit TIMEOUT 300 SOURCES codegen_tile_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
lfarm_test(codegen_fuzz LABEL fuzz TIMEOUT 600 SOURCES codegen_fuzz_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
lfarm_test(codegen_compile LABEL unit SOURCES codegen_compile_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
lfarm_test(codegen_attention LABEL unit TIMEOUT 300 SOURCES codegen_attention_test.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
