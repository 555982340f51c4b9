# tests/sim/scaling_day.h is included from the repository root; lfarm-bench day uses it, too.
lfarm_test(scaling_day LABEL sim SOURCES scaling_day_test.cc scaling_day.cc
  COMPONENTS coordinator/farm common/base)
