lfarm_test(found_model LABEL unit SOURCES found_model_test.cc COMPONENTS clients/runtime)
target_include_directories(test_found_model PRIVATE ${CMAKE_SOURCE_DIR})
