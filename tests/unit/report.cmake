lfarm_test(records LABEL unit SOURCES records_test.cc COMPONENTS common/records
  LIBRARIES PkgConfig::SQLITE)
lfarm_test(report LABEL unit SOURCES report_test.cc report_page_test.cc COMPONENTS clients/report
  LIBRARIES nlohmann_json::nlohmann_json)
lfarm_test(score LABEL unit SOURCES score_test.cc COMPONENTS clients/score)
lfarm_test(plan_work LABEL unit SOURCES plan_work_test.cc
  COMPONENTS coordinator/service cache/store common/ir)
