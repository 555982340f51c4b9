lfarm_test(operators_page LABEL golden SOURCES operators_page_test.cc COMPONENTS clients/pt2)
target_compile_definitions(test_operators_page PRIVATE
  LFARM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
lfarm_test(pt2_schemas LABEL golden SOURCES pt2_schemas_test.cc
  COMPONENTS clients/pt2 common/base common/ir common/runtime
  LIBRARIES nlohmann_json::nlohmann_json)
target_compile_definitions(test_pt2_schemas PRIVATE
  LFARM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
