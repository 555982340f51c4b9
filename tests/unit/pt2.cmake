lfarm_test(pt2_archive LABEL unit SOURCES pt2_archive_test.cc COMPONENTS clients/pt2 common/base)
target_include_directories(test_pt2_archive PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(pt2_pickle LABEL unit SOURCES pt2_pickle_test.cc COMPONENTS clients/pt2 common/base)
lfarm_test(pt2_translate LABEL unit SOURCES pt2_translate_test.cc pt2_case.cc TIMEOUT 1800
  COMPONENTS clients/pt2 common/base common/ir common/runtime LIBRARIES nlohmann_json::nlohmann_json)
target_include_directories(test_pt2_translate PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(pt2_versions LABEL unit SOURCES pt2_versions_test.cc COMPONENTS clients/pt2 common/ir)
target_include_directories(test_pt2_versions PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(pt2_special_functions LABEL unit SOURCES pt2_special_functions_test.cc
  COMPONENTS clients/pt2 common/base common/ir common/runtime)
target_include_directories(test_pt2_special_functions PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(pt2_hostile LABEL unit SOURCES pt2_hostile_test.cc COMPONENTS clients/pt2 common/base
  common/ir)
lfarm_test(pt2_index_checks LABEL unit SOURCES pt2_index_checks_test.cc
  COMPONENTS clients/pt2 common/base common/ir common/runtime)
target_include_directories(test_pt2_index_checks PRIVATE ${CMAKE_SOURCE_DIR})
