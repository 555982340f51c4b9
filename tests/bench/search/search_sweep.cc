// search --sweep: whether more budget ever gives a worse plan, on the simulated device with noise.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "common/cost/kernels/cost_model.h"
#include "tests/bench/search/search_graphs.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBudgets[] = {10, 100, 500};
// Two programs closer than this are taken for equally good.
constexpr double kAlike = 1.001;

// Relative, of a measured time as its runs scatter. The quartiles of a normal distribution
// are 1.349 standard deviations apart.
double standard_error(const common::TaskReport& report) {
  return static_cast<double>(report.spread_ns) / 1.349 / std::sqrt(report.runs) /
         static_cast<double>(report.total_ns);
}

struct Found {
  double ns = 0;     // the plan's true time
  double doubt = 0;  // of its measurement, relative: a standard error
};

// The plan that a search ends with; nothing when it failed.
std::optional<Found> find_plan(const common::Graph& graph,
                               const coordinator::SearchOptions& options, SimulatedDevice& device) {
  auto search = coordinator::JobSearch::create(graph, options, nullptr);
  if (!search.ok()) return std::nullopt;
  std::vector<int64_t> sizes = common::representative_sizes(graph.symbols);
  std::map<int64_t, Found> wholes;  // by what was measured
  while (!(*search)->done()) {
    for (const coordinator::CandidateTask& task : (*search)->propose(1)) {
      coordinator::CandidateResult result = device.measure(task);
      (*search)->on_result(task.id, result);
      if (task.payload.kind == common::TaskKind::kCandidate) continue;
      wholes[static_cast<int64_t>(result.report.total_ns)] = {
          device.true_ns(task.payload.program, sizes), standard_error(result.report)};
    }
  }
  auto outcome = (*search)->outcome();
  if (!outcome.ok()) return std::nullopt;
  auto taken = wholes.find(outcome->plan.provenance.best_ns);
  return taken == wholes.end() ? std::nullopt : std::optional(taken->second);
}

}  // namespace

int run_search_sweep(const std::vector<SearchGraph>& graphs, int64_t seeds, double noise) {
  int64_t pairs = 0, worse = 0, told = 0;
  double worst = 1;
  for (const SearchGraph& graph : graphs) {
    std::vector<double> logs(std::size(kBudgets), 0);
    int64_t worse_here = 0, told_here = 0;
    double worst_here = 1;
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      double before = std::numeric_limits<double>::infinity();
      for (size_t b = 0; b < std::size(kBudgets); ++b) {
        coordinator::SearchOptions options;
        options.budget = kBudgets[b];
        options.seed = static_cast<uint64_t>(seed);
        options.target.name = "simulated";
        // The noise follows the seed and the candidate's number: as far as two searches try the
        // same, they measure the same.
        SimulatedDevice device({noise, static_cast<uint64_t>(seed), true});
        auto found = find_plan(graph.graph, options, device);
        if (!found) {
          std::fprintf(stderr, "lfarm-bench: %s: a search failed\n", graph.name.c_str());
          return 1;
        }
        if (b > 0) ++pairs;
        worse_here += found->ns > before * kAlike ? 1 : 0;
        told_here += found->ns > before * (1 + 2 * found->doubt) ? 1 : 0;
        worst_here = std::max(worst_here, found->ns / before);
        before = found->ns;
        logs[b] += std::log(found->ns);
      }
    }
    Json line{{"sweep", graph.name}, {"seeds", seeds}, {"noise", noise}};
    for (size_t b = 0; b < std::size(kBudgets); ++b) {
      line["ns_" + std::to_string(kBudgets[b])] =
          std::llround(std::exp(logs[b] / static_cast<double>(seeds)));
    }
    line["worse"] = worse_here;
    line["worse_beyond_noise"] = told_here;
    line["worst_ratio"] = worst_here;
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
    worse += worse_here;
    told += told_here;
    worst = std::max(worst, worst_here);
  }
  std::printf("%s\n", Json{{"sweep", "all"},
                           {"pairs", pairs},
                           {"worse", worse},
                           {"worse_beyond_noise", told},
                           {"worst_ratio", worst}}
                          .dump()
                          .c_str());
  return 0;
}

}  // namespace bench
