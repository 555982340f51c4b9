lfarm_test(codegen_golden LABEL golden SOURCES codegen_golden_test.cc COMPONENTS worker/codegen)
target_compile_definitions(test_codegen_golden PRIVATE
  LFARM_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
