lfarm_test(records LABEL unit SOURCES records_test.cc COMPONENTS common/records
  LIBRARIES PkgConfig::SQLITE)
lfarm_test(report LABEL unit SOURCES report_test.cc report_page_test.cc COMPONENTS clients/report
  LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(score LABEL unit SOURCES score_test.cc COMPONENTS clients/score)
lfarm_test(plan_work LABEL unit SOURCES plan_work_test.cc
  COMPONENTS coordinator/service cache/store common/ir)
lfarm_test(bench_record LABEL unit
  SOURCES bench_record_test.cc ${CMAKE_SOURCE_DIR}/tests/bench/record.cc
  COMPONENTS common/base common/plan common/records common/runtime
  LIBRARIES nlohmann_json::nlohmann_json)
target_include_directories(test_bench_record PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(bench_peers LABEL unit
  SOURCES bench_peers_test.cc ${CMAKE_SOURCE_DIR}/tests/bench/model_work.cc
    ${CMAKE_SOURCE_DIR}/tests/bench/peer_process.cc ${CMAKE_SOURCE_DIR}/tests/bench/peers_report.cc
  COMPONENTS common/base common/ir
  LIBRARIES nlohmann_json::nlohmann_json)
target_sources(test_bench_peers PRIVATE ${CMAKE_BINARY_DIR}/tests/bench/peer_script.cc)
target_include_directories(test_bench_peers PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(bench_measured_model LABEL unit
  SOURCES bench_measured_model_test.cc ${CMAKE_SOURCE_DIR}/tests/bench/measured_model.cc
    ${CMAKE_SOURCE_DIR}/tests/bench/model_work.cc
  COMPONENTS clients/cli clients/pt2 clients/runtime common/base common/ir common/runtime
  LIBRARIES nlohmann_json::nlohmann_json)
target_include_directories(test_bench_measured_model PRIVATE ${CMAKE_SOURCE_DIR})
