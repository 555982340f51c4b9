lfarm_test(demand LABEL unit SOURCES demand_test.cc COMPONENTS coordinator/farm)
lfarm_test(http LABEL unit SOURCES http_test.cc COMPONENTS common/base common/http common/metrics)
