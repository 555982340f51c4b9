lfarm_test(service_classes LABEL unit SOURCES service_classes_test.cc
  COMPONENTS coordinator/service coordinator/search)
lfarm_test(service_parts LABEL unit SOURCES tuning_records_test.cc service_parts_test.cc
  COMPONENTS coordinator/service coordinator/search)
lfarm_test(clock_jumps LABEL unit SOURCES clock_jumps_test.cc
  COMPONENTS cache/store coordinator/service coordinator/search)
lfarm_test(service_page LABEL unit SOURCES service_page_test.cc
  COMPONENTS coordinator/page coordinator/service coordinator/search
  LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(timeline LABEL unit SOURCES timeline_test.cc
  COMPONENTS coordinator/service LIBRARIES nlohmann_json::nlohmann_json)
target_include_directories(test_timeline PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(meters LABEL unit SOURCES meters_test.cc COMPONENTS coordinator/service)
lfarm_test(audit LABEL unit SOURCES audit_test.cc
  COMPONENTS coordinator/service common/wire LIBRARIES nlohmann_json::nlohmann_json)
