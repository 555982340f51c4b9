#include "coordinator/service/command/searcher_web.h"

#include "common/http/probes.h"
#include "common/metrics/metrics.h"

namespace coordinator::service {
namespace {

common::Health health_of(const SearcherState& state, int64_t now_ns) {
  common::Health health;
  if (!state.has_joined) health.unstarted = "no coordinator has welcomed it yet";
  // A coordinator that is away is no fault of this process: a new one would not find it either.
  if (!state.is_joined) health.unready = "no coordinator answers";
  int64_t turned_ns = state.turned_ns;
  health.silent_ms = turned_ns == 0 ? 0 : (now_ns - turned_ns) / 1'000'000;
  return health;
}

std::string metrics_text(const SearcherState& state) {
  std::vector<common::GaugeFamily> gauges = common::process_gauges();
  gauges.push_back({"lfarm_searcher_joined",
                    "1 while a coordinator answers it",
                    {{{}, state.is_joined ? 1.0 : 0.0}}});
  gauges.push_back({"lfarm_searcher_searches",
                    "Searches that it has",
                    {{{}, static_cast<double>(state.searches)}}});
  return common::Metrics().text(gauges);
}

}  // namespace

common::Result<std::unique_ptr<common::HttpServer>> serve_searcher_web(const std::string& address,
                                                                       const SearcherState& state,
                                                                       const common::Clock& clock) {
  return common::HttpServer::start(
      address, [&state, &clock](const common::HttpRequest& request) -> common::HttpResponse {
        const std::string& path = request.path;
        if (auto probed = common::answer_probe(path, health_of(state, clock.now_ns()))) {
          return *std::move(probed);
        }
        if (path == "/metrics") {
          return {200, metrics_text(state), "text/plain; version=0.0.4; charset=utf-8"};
        }
        if (path == "/") {
          return {200,
                  "lfarm searcher\n/startupz /readyz /livez  probes\n/metrics  for Prometheus\n"};
        }
        return {404, "nothing is here; see /\n"};
      });
}

}  // namespace coordinator::service
