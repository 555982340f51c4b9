# tests/farm/*.h are included from the repository root, beside the components' own headers.
set(service_support ${CMAKE_CURRENT_SOURCE_DIR}/service_peers.cc
    ${CMAKE_CURRENT_SOURCE_DIR}/service_script.cc)
set(service_components coordinator/service coordinator/search)
add_executable(lfarm-coordinator-scripted
  ${CMAKE_CURRENT_SOURCE_DIR}/service_main.cc ${CMAKE_CURRENT_SOURCE_DIR}/service_script.cc)
set_target_properties(lfarm-coordinator-scripted PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_compile_options(lfarm-coordinator-scripted PRIVATE ${LFARM_WARNINGS})
target_include_directories(lfarm-coordinator-scripted PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(lfarm-coordinator-scripted PRIVATE lfarm_coordinator_service)
lfarm_test(service LABEL farm
  SOURCES service_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(loop_reads LABEL farm
  SOURCES loop_reads_test.cc ${service_support} COMPONENTS ${service_components} cache/store)
lfarm_test(service_machines LABEL farm
  SOURCES service_machines_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(service_disk LABEL farm
  SOURCES service_disk_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime
  DEPENDS lfarm-coordinator-scripted)
lfarm_test(service_live LABEL farm
  SOURCES service_live_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(live_clients LABEL farm
  SOURCES live_clients_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime)
lfarm_test(service_load LABEL farm
  SOURCES service_load_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(service_process LABEL farm
  SOURCES service_process_test.cc ${service_support} COMPONENTS ${service_components}
  DEPENDS lfarm-coordinator-scripted)
lfarm_test(service_security LABEL farm
  SOURCES service_security_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(service_teams LABEL farm
  SOURCES service_teams_test.cc ${service_support} COMPONENTS ${service_components} cache/remote)
lfarm_test(service_versions LABEL farm
  SOURCES service_versions_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime)
lfarm_test(service_trace LABEL farm
  SOURCES service_trace_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(shared_tier LABEL farm
  SOURCES shared_tier_test.cc ${service_support} COMPONENTS ${service_components} cache/remote)
lfarm_test(replica_notes LABEL farm
  SOURCES replica_notes_test.cc COMPONENTS coordinator/service cache/remote)
foreach(name service loop_reads replica_notes service_machines service_versions service_disk service_live service_load
        service_process service_security service_teams service_trace shared_tier live_clients)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR})
endforeach()
