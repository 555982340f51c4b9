// lfarm check: runs cases and compares with the outputs that PyTorch gave.
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/check_worker.h"
#include "clients/cli/commands.h"
#include "clients/cli/plan_source.h"
#include "clients/cli/report.h"
#include "clients/cli/signals.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;

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

}  // namespace

int check(const CheckCommand& command) {
  if (command.worker) return run_check_worker(command);
  // One farm serves all cases.
  Progress progress(false);
  PlanSource source(command.farm, command.budget, &progress);
  std::string farm;
  if (!command.reference) {
    auto endpoint = source.require_farm();
    if (!endpoint.ok()) return fail(endpoint.error());
    farm = *endpoint;
  }
  std::vector<CaseResult> results;
  std::array<int, 3> counts{};  // by verdict
  CaseRunner runner(command, farm);
  common::Status status = runner.run(
      command.cases,
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
  if (!command.json.empty()) {
    common::Status written = write_json(command.json, results, counts);
    if (!written.ok()) return fail(written.error());
  }
  return counts[1] == 0 && counts[2] == 0 ? kExitDone : kExitFailed;
}

}  // namespace clients
