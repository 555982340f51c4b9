lfarm_test(search_quality LABEL sim TIMEOUT 1800
  SOURCES search_quality_test.cc
  COMPONENTS common/base common/ir common/plan common/wire coordinator/search clients/pt2)
target_sources(test_search_quality PRIVATE ${CMAKE_SOURCE_DIR}/tests/bench/search/simulated_device.cc)
