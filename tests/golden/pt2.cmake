lfarm_test(operators_page LABEL golden SOURCES operators_page_test.cc COMPONENTS clients/pt2)
target_include_directories(test_operators_page PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(test_operators_page PRIVATE
  LFARM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
