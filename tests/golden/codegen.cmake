lfarm_test(codegen_golden LABEL golden SOURCES codegen_golden_test.cc COMPONENTS worker/codegen/c common/schedule)
target_compile_definitions(test_codegen_golden PRIVATE
  LFARM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
