lfarm_test(trust LABEL unit SOURCES trust_test.cc COMPONENTS clients/runtime)
