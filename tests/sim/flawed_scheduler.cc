#include "flawed_scheduler.h"

#include <algorithm>

namespace sim {

namespace {

constexpr uint32_t kNever = 1'000'000;
constexpr int64_t kNeverMs = 3'600'000;
// Of the chances to err, so many are taken.
constexpr double kOften = 0.02;

Config flawed(Config config, const Scene& scene) {
  if (scene.has(Defect::kNeverExpiresALease)) {
    config.times.lease_ms = config.times.lease_slack_ms = kNeverMs;
  }
  if (scene.has(Defect::kNeverGivesUp)) config.infra_failures_max = kNever;
  if (scene.has(Defect::kNeverStopsAJob)) config.given_up_max = kNever;
  if (scene.has(Defect::kNeverQuarantines)) config.killed_workers_max = kNever;
  if (scene.has(Defect::kQuarantinesAtOnce)) config.killed_workers_max = 1;
  return config;
}

}  // namespace

const char* defect_name(Defect defect) {
  switch (defect) {
    case Defect::kNone:
      return "none";
    case Defect::kAcceptsOldEpochs:
      return "accepts results of old epochs";
    case Defect::kCommitsTwice:
      return "commits twice";
    case Defect::kForgetsALease:
      return "forgets a lease";
    case Defect::kNeverExpiresALease:
      return "never expires a lease";
    case Defect::kNeverGivesUp:
      return "never gives a task up";
    case Defect::kNeverStopsAJob:
      return "never stops a job";
    case Defect::kOverfillsWorkers:
      return "overfills workers";
    case Defect::kMixesTargetsUp:
      return "mixes targets up";
    case Defect::kFeedsDrainingWorkers:
      return "feeds draining workers";
    case Defect::kIgnoresPriorities:
      return "ignores priorities";
    case Defect::kIgnoresTenants:
      return "ignores tenants";
    case Defect::kNeverQuarantines:
      return "never quarantines";
    case Defect::kQuarantinesAtOnce:
      return "quarantines after one death";
    case Defect::kForgetsQuarantineAtRestart:
      return "forgets quarantines at a restart";
    case Defect::kDropsAJobAtRestart:
      return "drops a job at a restart";
    case Defect::kTellsBeforeItIsWritten:
      return "tells a verdict before it is written";
    case Defect::kTrustsTornRecords:
      return "trusts torn records";
    case Defect::kBelievesDamagedMessages:
      return "believes damaged messages";
    case Defect::kNumbersTasksByGeneration:
      return "numbers tasks by its own generation";
    case Defect::kServesBeforeItReadsRevocations:
      return "serves before it reads revocations";
    case Defect::kMeasuresAgainAfterRestart:
      return "measures again after a restart";
    case Defect::kEnd:
      break;
  }
  return "unknown";
}

FlawedScheduler::FlawedScheduler(const Config& config, Scene& scene)
    : scene_(scene), scheduler_(flawed(config, scene)) {}

std::vector<Action> FlawedScheduler::on_event(const Event& event, int64_t now_ns) {
  if (scene_.has(Defect::kNone)) return scheduler_.on_event(event, now_ns);
  Event heard = event;
  if (!mistake(heard)) return {};
  std::vector<Action> actions = scheduler_.on_event(heard, now_ns);
  mistake(actions);
  return actions;
}

bool FlawedScheduler::mistake(Event& event) const {
  auto* hello = std::get_if<WorkerHello>(&event);
  switch (scene_.defect) {
    case Defect::kAcceptsOldEpochs:
      if (auto* result = std::get_if<TaskResult>(&event)) {
        auto lease = leases_.find(result->task);
        if (lease != leases_.end()) {
          std::tie(result->worker, result->epoch) = lease->second;
        }
      }
      return true;
    case Defect::kOverfillsWorkers:
      if (hello != nullptr) ++hello->slots;
      if (auto* beat = std::get_if<WorkerHeartbeat>(&event)) ++beat->slots;
      return true;
    case Defect::kMixesTargetsUp:
      if (hello != nullptr) hello->target = "cpu";
      return true;
    case Defect::kFeedsDrainingWorkers:
      return !std::holds_alternative<WorkerDrain>(event);
    case Defect::kIgnoresPriorities:
      if (auto* job = std::get_if<JobAdded>(&event)) job->priority = 1;
      return true;
    case Defect::kIgnoresTenants:
      if (auto* job = std::get_if<JobAdded>(&event)) job->tenant = "everyone";
      return true;
    default:
      return true;
  }
}

void FlawedScheduler::mistake(std::vector<Action>& actions) {
  for (const Action& action : actions) {
    if (auto* sent = std::get_if<SendTask>(&action)) {
      leases_[sent->task] = {sent->worker, sent->epoch};
    }
  }
  auto errs = [this](const Action& action, auto kind) {
    return std::holds_alternative<decltype(kind)>(action) && scene_.random.chance(kOften);
  };
  if (scene_.has(Defect::kForgetsALease)) {
    std::erase_if(actions, [&](const Action& action) { return errs(action, SendTask{}); });
  }
  if (scene_.has(Defect::kCommitsTwice)) {
    auto commits = std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
      return errs(action, TaskCommitted{});
    });
    if (commits != actions.end()) actions.push_back(Action(*commits));
  }
}

}  // namespace sim
