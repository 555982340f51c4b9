# tests/sim/scaling/scaling_day.h is included from the repository root; lfarm-bench day uses it, too.
lfarm_test(scaling_day LABEL sim SOURCES scaling/scaling_day_test.cc scaling/scaling_day.cc
  COMPONENTS coordinator/farm common/base)
