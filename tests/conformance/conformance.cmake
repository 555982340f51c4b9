lfarm_test(conformance LABEL conformance TIMEOUT 1800
  SOURCES conformance_test.cc
  COMPONENTS common/base common/ir common/plan common/runtime common/schedule/kernels coordinator/search worker/codegen/c
             worker/compile worker/agent clients/pt2 clients/runtime clients/cli)
