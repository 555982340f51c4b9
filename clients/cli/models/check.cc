// lfarm check: runs cases and compares with the outputs that PyTorch gave.
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/access/record_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/signals.h"
#include "clients/cli/models/case_runner.h"
#include "clients/report/measured.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/records/database.h"
#include "common/runtime/device/cpu_device.h"

namespace clients {
namespace {

struct CheckOptions {
  CaseOptions cases;
  std::vector<std::string> folders;
  double timeout_s = 600;
  std::string json;    // file; empty: none
  std::string record;  // likewise
};

common::Status write_json(const std::string& path, const std::vector<CaseResult>& results,
                          const std::array<int, 3>& counts) {
  using Json = nlohmann::ordered_json;
  Json cases = Json::array();
  for (const CaseResult& result : results) {
    Json row{{"name", result.name}, {"verdict", verdict_name(result.verdict)}};
    if (result.verdict == Verdict::kFail) row["reason"] = result.detail;
    if (result.verdict == Verdict::kUnsupported) row["operator"] = result.detail;
    row["seconds"] = result.seconds;
    cases.push_back(std::move(row));
  }
  Json json{{"passed", counts[0]},
            {"failed", counts[1]},
            {"unsupported", counts[2]},
            {"cases", std::move(cases)}};
  std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  return common::write_file_atomic(path, common::as_bytes(text));
}

// One record for each set of inputs; of a case that failed, one that says so.
std::vector<common::Record> records_of(const std::vector<CaseResult>& results,
                                       const std::string& device, bool reference) {
  std::vector<common::Record> records;
  for (const CaseResult& result : results) {
    common::Record record =
        record_here("lfarm check", device, reference ? kInterpreter : "lfarm", result.name);
    std::string detail = result.verdict == Verdict::kUnsupported
                             ? common::cat("unsupported: ", result.detail)
                             : result.detail;
    record.gates.push_back({"outputs as PyTorch's", result.verdict == Verdict::kPass,
                            common::record_text(detail, common::kRecordDetailMax)});
    if (result.measured.empty()) records.push_back(record);
    for (const CaseMeasurement& measured : result.measured) {
      record.sizes = measured.sizes;
      record.batch = measured.batch;
      record.dtype = measured.dtype;
      record.latency = measured.latency;
      record.error = measured.error;
      records.push_back(record);
    }
  }
  return records;
}

int check(const CheckOptions& options) {
  // One farm serves all cases.
  Progress progress(false);
  PlanSource source(options.cases.farm, options.cases.budget, &progress);
  std::string farm;
  std::string target = common::host_cpu_target().name;  // where the interpreter runs
  if (!options.cases.reference) {
    auto device = device_of(options.cases.farm);
    if (!device.ok()) return fail(device.error());
    target = device->target.name;
    auto endpoint = source.require_farm();
    if (!endpoint.ok()) return fail(endpoint.error());
    farm = *endpoint;
  }
  std::vector<CaseResult> results;
  std::array<int, 3> counts{};  // by verdict
  CaseOptions cases = options.cases;
  cases.measure = !options.record.empty();
  CaseRunner runner(cases, farm, options.timeout_s);
  common::Status status = runner.run(
      options.folders,
      [&](const CaseResult& result) {
        std::printf("%s\n", line_of(result).c_str());
        std::fflush(stdout);
        ++counts[static_cast<size_t>(result.verdict)];
        results.push_back(result);
      },
      [&source]() -> common::Status {
        LFARM_RETURN_IF_ERROR(check_stop());
        return source.tend();
      });
  if (!status.ok()) return fail(status.error());
  std::printf("%d passed, %d failed, %d unsupported\n", counts[0], counts[1], counts[2]);
  if (!options.json.empty()) {
    common::Status written = write_json(options.json, results, counts);
    if (!written.ok()) return fail(written.error());
  }
  if (!options.record.empty()) {
    common::Status kept = common::append_records(
        options.record, records_of(results, target, options.cases.reference));
    if (!kept.ok()) return fail(kept.error());
  }
  return counts[1] == 0 && counts[2] == 0 ? kExitDone : kExitFailed;
}

}  // namespace

void declare_check(CommandLine* line) {
  auto options = std::make_shared<CheckOptions>();
  Command command = line->add(
      "check",
      "Runs cases and compares with the outputs that PyTorch gave: a folder with model.pt2,\n"
      "inputs/, outputs/, meta.json and perhaps steps/, sizes/ and after/. Prints PASS, FAIL or\n"
      "UNSUPPORTED for each; exits 0 only if all passed.",
      [options] { return check(*options); });
  command.value("case", &options->folders, "CASE", "Folders of cases").required();
  command.flag("--reference", &options->cases.reference,
               "Use the reference interpreter instead of compiled plans");
  command.value("--json", &options->json, "FILE", "Also write the results as JSON");
  add_record_option(&command, &options->record);
  command.value("--timeout", &options->timeout_s, "S", "Seconds that one case may take")
      .in_range(0.1, 1e7)
      .shows_default();
  add_compile_options(&command, &options->cases.farm, &options->cases.budget);
}

}  // namespace clients
