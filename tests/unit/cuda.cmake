lfarm_test(cuda_nvrtc LABEL unit SOURCES cuda_nvrtc_test.cc COMPONENTS common/cuda)
