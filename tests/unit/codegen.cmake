# Each suite of generated code runs on this machine and on an emulated GPU.
function(lfarm_codegen_test name label timeout)
  lfarm_test(codegen_${name} LABEL ${label} TIMEOUT ${timeout}
    SOURCES codegen_${name}_test.cc codegen_cpu_runner.cc
    COMPONENTS worker/compile worker/codegen common/runtime)
  lfarm_test(codegen_${name}_cuda LABEL ${label} TIMEOUT ${timeout} ON_EMULATED_GPU
    SOURCES codegen_${name}_test.cc codegen_cuda_runner.cc
    COMPONENTS worker/codegen common/runtime common/cuda)
endfunction()
lfarm_codegen_test(loops unit 120)
lfarm_codegen_test(ops unit 600)
lfarm_codegen_test(tile unit 300)
lfarm_codegen_test(attention unit 300)
lfarm_codegen_test(fuzz fuzz 600)
lfarm_test(codegen_compile LABEL unit SOURCES codegen_compile_test.cc codegen_cpu_runner.cc
  COMPONENTS worker/compile worker/codegen common/runtime)
