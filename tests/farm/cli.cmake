# tests/farm/*.h are included from the repository root, beside the components' own headers.
lfarm_test(cli_errors LABEL farm SOURCES cli/cli_errors_test.cc COMPONENTS clients/pt2 common/process
  DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_farm LABEL farm TIMEOUT 1800 SHARDS 3 SOURCES cli/cli_farm_test.cc COMPONENTS clients/cli
  DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_generate LABEL farm TIMEOUT 1800 SOURCES cli/cli_generate_test.cc COMPONENTS common/base common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_keys LABEL farm TIMEOUT 1800 SOURCES cli/cli_keys_test.cc COMPONENTS common/base common/process
  DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_doctor LABEL farm TIMEOUT 1800 SOURCES cli/cli_doctor_test.cc COMPONENTS common/runtime common/sandbox
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker emulator)
lfarm_test(cli_reuse LABEL farm TIMEOUT 1800 SOURCES cli/cli_reuse_test.cc COMPONENTS common/base common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_report LABEL farm TIMEOUT 1800 SOURCES cli/cli_report_test.cc COMPONENTS common/base common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(cli_python LABEL farm TIMEOUT 1800 SOURCES cli/cli_compare_test.cc cli/cli_export_test.cc COMPONENTS common/base common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm lfarm-coordinator lfarm-worker)
lfarm_test(bench_models LABEL farm TIMEOUT 1800 SOURCES bench_models_test.cc COMPONENTS common/base common/process
  LIBRARIES nlohmann_json::nlohmann_json DEPENDS lfarm-bench lfarm-coordinator lfarm-worker)
set_tests_properties(farm.cli_doctor PROPERTIES ENVIRONMENT_MODIFICATION LFARM_CC=unset:)
