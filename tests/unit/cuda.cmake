lfarm_test(cuda_nvrtc LABEL unit SOURCES cuda_nvrtc_test.cc COMPONENTS common/cuda)
lfarm_test(cuda_cubin LABEL unit SOURCES cuda_cubin_test.cc COMPONENTS common/cuda)
lfarm_test(cuda_cublaslt LABEL unit SOURCES cuda_cublaslt_test.cc COMPONENTS common/cuda)
lfarm_test(cuda_products LABEL unit ON_EMULATED_GPU SOURCES cuda_products_test.cc COMPONENTS common/cuda)
