foreach(name arena device executor)
  lfarm_test(runtime_${name} LABEL unit SOURCES runtime_${name}_test.cc COMPONENTS common/runtime)
  target_include_directories(test_runtime_${name} PRIVATE ${CMAKE_SOURCE_DIR})
endforeach()
