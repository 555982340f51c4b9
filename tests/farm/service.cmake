# tests/farm/*.h are included from the repository root, beside the components' own headers.
set(service_support ${CMAKE_CURRENT_SOURCE_DIR}/service/service_peers.cc
    ${CMAKE_CURRENT_SOURCE_DIR}/service/service_script.cc)
set(service_components coordinator/service coordinator/service/inspect coordinator/service/web
    coordinator/search)
add_executable(lfarm-coordinator-scripted
  ${CMAKE_CURRENT_SOURCE_DIR}/service/service_main.cc ${CMAKE_CURRENT_SOURCE_DIR}/service/service_script.cc)
set_target_properties(lfarm-coordinator-scripted PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_compile_options(lfarm-coordinator-scripted PRIVATE ${LFARM_WARNINGS})
target_include_directories(lfarm-coordinator-scripted PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(lfarm-coordinator-scripted PRIVATE lfarm_coordinator_service_command)
lfarm_test(service LABEL farm
  SOURCES service/service_test.cc service/service_search_test.cc service/service_workers_test.cc ${service_support}
  COMPONENTS ${service_components})
lfarm_test(loop_reads LABEL farm
  SOURCES service/loop_reads_test.cc ${service_support} COMPONENTS ${service_components} cache/store)
lfarm_test(service_machines LABEL farm
  SOURCES service/service_machines_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(service_disk LABEL farm
  SOURCES service/service_disk_test.cc ${service_support}
  COMPONENTS common/process ${service_components} clients/runtime
  DEPENDS lfarm-coordinator-scripted)
lfarm_test(second_build LABEL farm
  SOURCES service/second_build_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(service_live LABEL farm
  SOURCES service/service_live_test.cc ${service_support} COMPONENTS ${service_components})
lfarm_test(live_clients LABEL farm
  SOURCES service/live_clients_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime)
lfarm_test(service_load LABEL farm
  SOURCES service/service_load_test.cc ${service_support} COMPONENTS ${service_components}
  LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(service_process LABEL farm
  SOURCES service/service_process_test.cc ${service_support} COMPONENTS common/process ${service_components}
  DEPENDS lfarm-coordinator-scripted)
lfarm_test(service_security LABEL farm
  SOURCES service/service_security_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(service_teams LABEL farm
  SOURCES service/service_teams_test.cc ${service_support} COMPONENTS ${service_components} cache/remote)
lfarm_test(service_versions LABEL farm
  SOURCES service/service_versions_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime)
lfarm_test(service_trace LABEL farm
  SOURCES service/service_trace_test.cc ${service_support}
  COMPONENTS ${service_components} clients/runtime LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(shared_tier LABEL farm
  SOURCES service/shared_tier_test.cc ${service_support} COMPONENTS ${service_components} cache/remote)
lfarm_test(replica_notes LABEL farm
  SOURCES service/replica_notes_test.cc COMPONENTS coordinator/service cache/remote)
lfarm_test(shards LABEL farm
  SOURCES service/shards_test.cc ${service_support}
  COMPONENTS coordinator/service coordinator/search clients/runtime/farm cache/engine)
lfarm_test(migration LABEL farm
  SOURCES service/migration_test.cc
  COMPONENTS coordinator/service/migration coordinator/service/journal common/process common/wire
  LIBRARIES PkgConfig::HTTPLIB)
lfarm_test(shards_process LABEL farm
  SOURCES service/shards_process_test.cc ${service_support}
  COMPONENTS coordinator/service coordinator/search clients/runtime/farm cache/engine common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm-coordinator-scripted lfarm)
lfarm_test(searchers LABEL farm
  SOURCES service/searchers_test.cc ${service_support}
  COMPONENTS ${service_components} coordinator/service/searchers common/wire/frames common/process
  DEPENDS lfarm-coordinator)
lfarm_test(service_signer LABEL farm
  SOURCES service/service_signer_test.cc ${service_support}
  COMPONENTS common/process ${service_components} clients/runtime/farm
  DEPENDS lfarm-coordinator-scripted)
