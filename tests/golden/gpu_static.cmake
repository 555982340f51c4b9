lfarm_test(gpu_static LABEL golden SOURCES gpu_static_test.cc gpu_static_code_test.cc gpu_static_kernels.cc
  COMPONENTS common/base common/cuda common/ir common/schedule worker/codegen/cuda LIBRARIES lfarm_gpu_static)
target_include_directories(test_gpu_static PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(test_gpu_static PRIVATE LFARM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
