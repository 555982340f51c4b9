lfarm_test(trust LABEL unit SOURCES trust_test.cc COMPONENTS clients/runtime)
lfarm_test(bit_flips LABEL unit SOURCES bit_flips_test.cc
  COMPONENTS clients/runtime cache/store common/wire)
