lfarm_test(web LABEL farm TIMEOUT 1800
  SOURCES web_test.cc ${CMAKE_SOURCE_DIR}/tests/cluster/fake_cluster.cc
  COMPONENTS common/base common/process common/http common/kubernetes
  LIBRARIES PkgConfig::HTTPLIB nlohmann_json::nlohmann_json
  DEPENDS lfarm lfarm-coordinator lfarm-worker)
