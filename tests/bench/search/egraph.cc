// egraph: the e-graph engine on the suites that published engines are measured on, saturation time
// against the number of layers, and what each rule does for real models.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/ir/roll/roll.h"
#include "coordinator/rules/saturate.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "tests/bench/bench.h"
#include "tests/unit/egraph/egraph_suites.h"
#include "tests/unit/ir/transformer.h"

namespace bench {
namespace {

int run_suite(const std::string& suite, bool explanations) {
  common::SteadyClock clock;
  auto report = egraph_suites::run_suite(suite, clock, explanations);
  if (!report.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", report.error().message.c_str());
    return 2;
  }
  std::printf(
      "{\"suite\":\"%s\",\"enodes\":%llu,\"eclasses\":%llu,\"seconds\":%.6f,\"search_s\":%.6f,"
      "\"apply_s\":%.6f,\"rebuild_s\":%.6f,\"peak_mb\":%.1f,\"stop\":\"%s\"}\n",
      suite.c_str(), static_cast<unsigned long long>(report->nodes),
      static_cast<unsigned long long>(report->classes), report->seconds, report->search_s,
      report->apply_s, report->rebuild_s, peak_mb(), coordinator::stop_reason_name(report->stop));
  return 0;
}

// The best of some runs for each number of layers, and the slope of log(time) over log(layers) by
// least squares.
int run_layers() {
  constexpr int kRuns = 7;
  common::SteadyClock clock;
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (int layers : {1, 2, 3, 4, 6, 8, 12, 16, 20, 24}) {
    common::Graph graph = common::testing::Transformer(layers).finish();
    double seconds = 1e9;
    coordinator::RunReport report;
    for (int run = 0; run < kRuns; ++run) {
      int64_t start = clock.now_ns();
      report = coordinator::saturate(graph, coordinator::RunLimits{}, clock).report;
      seconds = std::min(seconds, static_cast<double>(clock.now_ns() - start) * 1e-9);
    }
    std::printf(
        "{\"layers\":%d,\"nodes\":%zu,\"enodes\":%llu,\"iterations\":%llu,\"seconds\":%.6f,"
        "\"stop\":\"%s\"}\n",
        layers, graph.nodes.size(), static_cast<unsigned long long>(report.nodes),
        static_cast<unsigned long long>(report.iterations), seconds,
        coordinator::stop_reason_name(report.stop));
    double x = std::log(layers), y = std::log(seconds);
    ++n;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  std::printf("{\"exponent\":%.3f,\"peak_mb\":%.1f}\n",
              (n * sum_xy - sum_x * sum_y) / (n * sum_xx - sum_x * sum_x), peak_mb());
  return 0;
}

// Matches, unions and uses in the default program of every rule that matched, over all regions.
int run_rules(const std::vector<std::string>& paths) {
  std::map<std::string, coordinator::RuleReport> totals;
  common::SteadyClock clock;
  for (const std::string& path : paths) {
    auto model = clients::load_model(path);
    if (!model.ok()) {
      std::fprintf(stderr, "lfarm-bench: %s\n", model.error().message.c_str());
      return 2;
    }
    coordinator::Cut cut = coordinator::cut_into_regions(common::roll(model->graph));
    for (const coordinator::Region& region : cut.regions) {
      coordinator::RegionSpace space(region.graph, clock);
      coordinator::RunReport report = space.saturated().report;
      // Classes with one node have no site: no rule had a part in them.
      std::vector<coordinator::NodeId> chosen;
      for (const coordinator::Site& site : space.decode({}).sites) {
        if (site.name.kind != coordinator::GeneKind::kChoice) continue;
        chosen.push_back(static_cast<coordinator::NodeId>(site.current));
      }
      coordinator::count_helped(*space.saturated().graph, chosen, report);
      for (const coordinator::RuleReport& rule : report.rules) {
        coordinator::RuleReport& total = totals[rule.name];
        total.matches += rule.matches;
        total.applied += rule.applied;
        total.helped += rule.helped;
        total.search_s += rule.search_s + rule.apply_s;
      }
    }
  }
  for (const coordinator::RuleInfo& info : coordinator::rule_infos()) {
    const coordinator::RuleReport& total = totals[info.name];
    if (total.matches == 0) continue;
    std::printf(
        "{\"family\":\"%s\",\"rule\":\"%s\",\"matches\":%llu,\"fired\":%llu,\"helped\":%llu,"
        "\"seconds\":%.6f}\n",
        info.family.c_str(), info.name.c_str(), static_cast<unsigned long long>(total.matches),
        static_cast<unsigned long long>(total.applied),
        static_cast<unsigned long long>(total.helped), total.search_s);
  }
  return 0;
}

}  // namespace

int run_egraph(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode == "--layers" && arguments.size() == 1) return run_layers();
  if (mode == "--rules" && arguments.size() > 1) {
    return run_rules({arguments.begin() + 1, arguments.end()});
  }
  bool explanations = arguments.size() == 3 && arguments[2] == "--explain";
  if (mode == "--suite" && (arguments.size() == 2 || explanations)) {
    return run_suite(arguments[1], explanations);
  }
  std::fprintf(stderr,
               "lfarm-bench: egraph takes --suite mathmicroN|acN|chainN [--explain], --layers, or "
               "--rules MODEL.pt2...\n");
  return 2;
}

}  // namespace bench
