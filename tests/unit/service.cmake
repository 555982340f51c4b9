lfarm_test(service_parts LABEL unit SOURCES service_findings_test.cc service_parts_test.cc
  COMPONENTS coordinator/service coordinator/search)
