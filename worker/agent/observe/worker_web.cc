#include "worker/agent/observe/worker_web.h"

#include "common/http/probes.h"
#include "common/metrics/metrics.h"

namespace worker {
namespace {

using common::HttpResponse;

common::Health health_of(const AgentState& state, int64_t now_ns) {
  common::Health health;
  if (!state.has_joined) health.unstarted = "has not joined the farm yet";
  // A farm that is away is no fault of this process: a new one would not find it either.
  health.unready = state.is_draining ? "draining" : state.is_joined ? "" : "the farm is away";
  int64_t turned_ns = state.turned_ns;
  health.silent_ms = turned_ns == 0 ? 0 : (now_ns - turned_ns) / 1'000'000;
  return health;
}

std::string metrics_text(const std::string& name, const std::string& target,
                         const AgentState& state, int64_t now_ns) {
  // Counted by the agent, so they are made anew for each reader.
  common::Metrics metrics;
  for (int k = 0; k < common::kOutcomes; ++k) {
    auto outcome = static_cast<common::TaskOutcome>(k);
    metrics
        .counter("lfarm_worker_tasks_total", "Tasks that this worker answered, by outcome",
                 {{"outcome", common::outcome_name(outcome)}})
        .add(static_cast<double>(state.answered[static_cast<size_t>(k)]));
  }
  for (size_t k = 0; k < kSteps.size(); ++k) {
    metrics
        .counter("lfarm_worker_step_seconds_total", "Time of tasks that it answered, by step",
                 {{"step", kSteps[k]}})
        .add(static_cast<double>(state.step_us[k]) * 1e-6);
  }
  std::vector<common::GaugeFamily> gauges = common::process_gauges();
  auto gauge = [&](const char* metric, const char* help, double value) {
    gauges.push_back({metric, help, {{{}, value}}});
  };
  gauges.push_back(
      {"lfarm_worker_info", "What runs here", {{{{"worker", name}, {"target", target}}, 1}}});
  gauge("lfarm_worker_leases", "Tasks that it holds", state.leases);
  int64_t idle_since_ns = state.idle_since_ns;
  gauge("lfarm_worker_idle_seconds", "Since when it has held none",
        idle_since_ns == 0 ? 0 : static_cast<double>(now_ns - idle_since_ns) * 1e-9);
  gauge("lfarm_worker_joined", "1 while the farm answers it", state.is_joined ? 1 : 0);
  gauge("lfarm_worker_draining", "1 once it takes no more tasks", state.is_draining ? 1 : 0);
  return metrics.text(gauges);
}

}  // namespace

common::Result<std::unique_ptr<common::HttpServer>> serve_web(const std::string& address,
                                                              const std::string& name,
                                                              const std::string& target,
                                                              const AgentState& state,
                                                              const common::Clock& clock) {
  return common::HttpServer::start(
      address, [=, &state, &clock](const common::HttpRequest& request) -> HttpResponse {
        const std::string& path = request.path;
        if (auto probed = common::answer_probe(path, health_of(state, clock.now_ns()))) {
          return *std::move(probed);
        }
        if (path == "/metrics") {
          return {200, metrics_text(name, target, state, clock.now_ns()),
                  "text/plain; version=0.0.4; charset=utf-8"};
        }
        if (path == "/") {
          return {200,
                  "lfarm worker\n/startupz /readyz /livez  probes\n/metrics  for Prometheus\n"};
        }
        return {404, "nothing is here; see /\n"};
      });
}

}  // namespace worker
