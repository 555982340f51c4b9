lfarm_test(base LABEL unit SOURCES processors_test.cc COMPONENTS common/base)
