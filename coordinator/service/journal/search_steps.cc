#include "coordinator/service/journal/search_steps.h"

#include <algorithm>

#include "common/wire/ir_codec.h"

namespace coordinator::service {

namespace {

// A job whose only budget is a time may try this many.
constexpr int64_t kCandidatesMax = 1'000'000;

// A hundred candidates take seconds to minutes of a farm.
constexpr double kStopGain = 0.01;

}  // namespace

SearchOptions search_options(const JobRequest& request, const JobStart& start) {
  SearchOptions options;
  options.seed = request.seed;
  options.target = request.key.target;
  options.machine = start.machine;
  options.policy = request.key.policy;
  options.in_flight = start.in_flight;
  options.stop_gain = kStopGain;
  options.priors = std::make_shared<const EffectTable>(start.priors);
  if (!start.incumbent.empty()) {
    // A journal's damage costs the comparison.
    auto incumbent = common::decode_task_payload(start.incumbent);
    if (incumbent.ok()) {
      options.incumbent = std::make_shared<const common::Program>(std::move(incumbent->program));
    }
  }
  options.time_ms = static_cast<int64_t>(std::min<uint64_t>(request.budget_ms, INT64_MAX));
  options.budget = kCandidatesMax;
  if (request.budget_candidates != 0) {
    options.budget =
        static_cast<int64_t>(std::min<uint64_t>(request.budget_candidates, kCandidatesMax));
  }
  return options;
}

}  // namespace coordinator::service
