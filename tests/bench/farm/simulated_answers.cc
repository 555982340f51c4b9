#include "tests/bench/farm/simulated_answers.h"

#include <stdexcept>
#include <utility>

#include "common/base/hash64.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_script.h"

namespace bench {
namespace {

// Of a comparison's ratio, to either side.
constexpr double kComparisonScatter = 0.01;

common::TaskPayload decoded(const common::Bytes& payload) {
  auto task = common::decode_task_payload(payload);
  if (!task.ok()) throw std::runtime_error(task.error().message);
  return *std::move(task);
}

}  // namespace

const SimulatedAnswer& SimulatedAnswers::to(const common::Bytes& payload) {
  uint64_t key = common::hash64(payload);
  auto found = answers_.find(key);
  if (found == answers_.end()) found = answers_.emplace(key, make(payload)).first;
  return found->second;
}

const common::SharedBytes* SimulatedAnswers::object(const common::Digest& digest) const {
  auto found = objects_.find(digest);
  return found == objects_.end() ? nullptr : &found->second;
}

SimulatedAnswer SimulatedAnswers::make(const common::Bytes& payload) {
  auto made = coordinator::service::scripted_report(payload);
  objects_.merge(made.objects);
  if (from_ == AnswersFrom::kDevice) measure(decoded(payload), made.report);
  return {made.kind, common::encode_task_report(made.report)};
}

void SimulatedAnswers::measure(const common::TaskPayload& task, common::TaskReport& report) {
  auto measured = [&](const common::Program& program) {
    coordinator::CandidateTask candidate;
    candidate.payload.program = program;
    candidate.payload.verify = task.verify;
    candidate.payload.measure = task.measure;
    return device_.measure(candidate).report;
  };
  common::TaskReport own = measured(task.program);
  report.kernel_ns = own.kernel_ns;
  report.total_ns = own.total_ns;
  report.spread_ns = own.spread_ns;
  report.runs = own.runs;
  for (const common::Program& rival : task.rivals) {
    common::TaskReport other = measured(rival);
    double speedup = static_cast<double>(own.total_ns) / static_cast<double>(other.total_ns);
    report.rivals.push_back({other.total_ns, other.spread_ns, speedup,
                             speedup * (1 - kComparisonScatter),
                             speedup * (1 + kComparisonScatter)});
  }
}

}  // namespace bench
