#include "clients/report/logs/plan_memory.h"

#include <nlohmann/json.hpp>

#include "clients/report/logs/json_words.h"
#include "clients/report/logs/run_lines.h"
#include "common/base/cat.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

Status take_kernel(Words* words, PlanMemory* plan) {
  KernelTime kernel;
  words->text("kernel", &kernel.kernel, Need::kNeeded);
  words->text("modules", &kernel.modules);
  words->text("sources", &kernel.sources);
  words->count("calls", &kernel.calls);
  words->number("ms", &kernel.ms);
  LFARM_RETURN_IF_ERROR(words->finish());
  LFARM_RETURN_IF_ERROR(check_not_negative("ms", kernel.ms));
  if (plan->kernels.size() < kPlanKernelsMax) plan->kernels.push_back(std::move(kernel));
  return {};
}

}  // namespace

Result<PlanMemory> parse_plan_memory(const common::RunLog& log, int64_t first_line) {
  constexpr size_t kKindsMax = 32;
  PlanMemory plan;
  auto take = [&](const nlohmann::json& line) -> Status {
    Words words(line);
    if (words.has("kernel")) return take_kernel(&words, &plan);
    plan.memory.clear();
    words.named_numbers("memory", &plan.memory, kKindsMax);
    LFARM_RETURN_IF_ERROR(words.finish());
    for (const auto& [what, bytes] : plan.memory) {
      if (!(bytes >= 0)) {
        return common::invalid_input(cat("bytes of \"", what, "\" are not a number from 0"));
      }
    }
    return {};
  };
  LFARM_RETURN_IF_ERROR(read_lines(
      log, first_line, &plan.head, [&](Words& head) { head.text("id", &plan.id); }, take));
  return plan;
}

common::RunLog log_of(const PlanMemory& plan) {
  const RunHead& head = plan.head;
  nlohmann::ordered_json first{{kPlanKind, head.name}}, bytes = nlohmann::ordered_json::object();
  if (!head.machine.empty()) first["machine"] = head.machine;
  if (!head.device.empty()) first["device"] = head.device;
  if (!head.note.empty()) first["note"] = head.note;
  if (!plan.id.empty()) first["id"] = plan.id;
  for (const auto& [what, size] : plan.memory) bytes[what] = size;
  nlohmann::ordered_json second{{"memory", std::move(bytes)}};
  std::string lines = cat(first.dump(), "\n", second.dump(), "\n");
  for (const KernelTime& kernel : plan.kernels) {
    nlohmann::ordered_json line{{"kernel", kernel.kernel}};
    if (!kernel.modules.empty()) line["modules"] = kernel.modules;
    if (!kernel.sources.empty()) line["sources"] = kernel.sources;
    line["calls"] = kernel.calls;
    line["ms"] = kernel.ms;
    lines += cat(line.dump(), "\n");
  }
  return {head.at_ns, kPlanKind, head.name, head.machine, head.device, std::move(lines)};
}

}  // namespace clients
