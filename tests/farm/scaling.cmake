lfarm_test(scaling LABEL farm TIMEOUT 1800 SOURCES scaling_test.cc COMPONENTS common/base common/process common/http
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
