lfarm_test(web LABEL farm TIMEOUT 1800
  SOURCES web_test.cc ${CMAKE_SOURCE_DIR}/tests/cluster/fake_cluster.cc
  COMPONENTS common/base common/http common/kubernetes
  LIBRARIES PkgConfig::HTTPLIB nlohmann_json::nlohmann_json
  DEPENDS lfarm lfarm-coordinator lfarm-worker)
target_include_directories(test_web PRIVATE ${CMAKE_SOURCE_DIR})
