lfarm_test(npy LABEL unit SOURCES npy_test.cc COMPONENTS clients/cli)
lfarm_test(npy_case LABEL unit SOURCES npy_case_test.cc COMPONENTS clients/cli)
