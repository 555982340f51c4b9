lfarm_test(live_instance LABEL unit SOURCES live_instance_test.cc COMPONENTS clients/runtime)
target_include_directories(test_live_instance PRIVATE ${CMAKE_SOURCE_DIR})
