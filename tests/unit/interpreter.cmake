lfarm_test(interpreter LABEL unit
  SOURCES interpreter_test.cc interpreter_graph_test.cc interpreter_verify_test.cc
  COMPONENTS common/runtime)
target_include_directories(test_interpreter PRIVATE ${CMAKE_SOURCE_DIR})
