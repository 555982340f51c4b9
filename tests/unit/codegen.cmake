# lfarm_codegen_test(codegen_tile_test.cc unit SHARDS 4)
# Each suite of generated code runs on this machine and on an emulated GPU, and is compiled for real
# ones where NVRTC is found. Only the first is a test of a unit: the others hold what is generated
# against a device and its compiler, and take half a minute of those.
function(lfarm_codegen_test source label)
  set(device_label ${label})
  if(label STREQUAL "unit")
    set(device_label conformance)
  endif()
  string(REPLACE "_test.cc" "" name ${source})
  lfarm_test(${name} LABEL ${label} TIMEOUT 1800 ${ARGN} SOURCES ${source} codegen_cpu_runner.cc
    COMPONENTS worker/compile worker/codegen/c common/runtime)
  lfarm_test(${name}_cuda LABEL ${device_label} TIMEOUT 1800 ON_EMULATED_GPU
    SOURCES ${source} codegen_cuda_runner.cc
    COMPONENTS worker/codegen/cuda common/runtime common/cuda)
  lfarm_test(${name}_nvrtc LABEL ${device_label} TIMEOUT 1800
    SOURCES ${source} codegen_nvrtc_runner.cc
    COMPONENTS worker/codegen/cuda common/runtime common/cuda)
endfunction()
lfarm_codegen_test(codegen_loops_test.cc unit)
lfarm_codegen_test(codegen_ops_test.cc unit)
lfarm_codegen_test(codegen_tile_test.cc unit SHARDS 4)
lfarm_codegen_test(codegen_attention_test.cc unit SHARDS 4)
lfarm_codegen_test(codegen_fourier_test.cc unit)
lfarm_codegen_test(codegen_fuzz_test.cc fuzz)
# Three real GPUs for each kernel: half the rounds.
set_property(TEST fuzz.codegen_fuzz_nvrtc APPEND PROPERTY ENVIRONMENT LFARM_FUZZ_ROUNDS=2)
lfarm_test(codegen_pairs LABEL unit TIMEOUT 1800 SOURCES codegen_pairs_test.cc codegen_cpu_runner.cc
  COMPONENTS worker/compile worker/codegen/c common/runtime)
lfarm_test(reduction_fusion LABEL unit SOURCES reduction_fusion_test.cc COMPONENTS worker/codegen)
lfarm_test(codegen_compile LABEL unit SOURCES codegen_compile_test.cc codegen_cpu_runner.cc
  COMPONENTS worker/compile worker/codegen/c common/runtime)
set_tests_properties(unit.codegen_compile PROPERTIES ENVIRONMENT_MODIFICATION LFARM_CC=unset:)
