lfarm_test(farm LABEL unit SOURCES farm_test.cc farm_sharing_test.cc COMPONENTS coordinator/farm)
