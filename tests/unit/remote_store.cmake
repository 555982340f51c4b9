lfarm_test(remote_store LABEL unit SOURCES remote_store_test.cc COMPONENTS cache/remote)
