lfarm_test(pt2_archive LABEL unit SOURCES pt2_archive_test.cc COMPONENTS clients/pt2 common/base)
target_include_directories(test_pt2_archive PRIVATE ${CMAKE_SOURCE_DIR})
lfarm_test(pt2_pickle LABEL unit SOURCES pt2_pickle_test.cc COMPONENTS clients/pt2 common/base)
