lfarm_test(disk_cache LABEL unit SOURCES disk_cache_test.cc COMPONENTS clients/runtime)
