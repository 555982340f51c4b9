lfarm_test(service_parts LABEL unit SOURCES service_parts_test.cc
  COMPONENTS coordinator/service coordinator/search)
