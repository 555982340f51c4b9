lfarm_test(disk_cache LABEL unit SOURCES disk_cache_test.cc COMPONENTS clients/runtime)
lfarm_test(plan_archive LABEL unit SOURCES plan_archive_test.cc COMPONENTS clients/runtime)
