// search --device cpu: the same search with real measurements: how well predictions rank
// candidates, and what the plans come to.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <numeric>

#include "tests/bench/bench.h"
#include "tests/bench/cpu_device.h"
#include "tests/bench/search_graphs.h"

namespace bench {
namespace {

using coordinator::JobSearch;

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) result[order[k]] = static_cast<double>(i + end - 1) / 2;
    i = end;
  }
  return result;
}

// The correlation of two orders; ties share their mean rank.
double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> x = ranks(a), y = ranks(b);
  double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    xy += (x[k] - mean) * (y[k] - mean);
    xx += (x[k] - mean) * (x[k] - mean);
    yy += (y[k] - mean) * (y[k] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

// Predictions as they were made, before the candidate ran, what it took, and what it took when it
// was measured once more.
struct Pairs {
  std::vector<double> predicted, measured, again;
  std::vector<coordinator::CandidateTask> tasks;
};

// Everything once more, in the same order: what two measurements of a candidate have in common
// bounds what a prediction can have in common with one of them.
void measure_again(CpuDevice& device, Pairs& pairs) {
  Pairs both;
  for (size_t k = 0; k < pairs.tasks.size(); ++k) {
    coordinator::CandidateResult result = device.measure(pairs.tasks[k]);
    if (result.outcome != common::TaskOutcome::kOk) continue;
    both.predicted.push_back(pairs.predicted[k]);
    both.measured.push_back(pairs.measured[k]);
    both.again.push_back(static_cast<double>(result.report.total_ns));
  }
  pairs = std::move(both);
}

}  // namespace

int run_search_cpu(const std::vector<SearchGraph>& graphs, const std::vector<NamedSearch>& searches,
                   int64_t budget) {
  auto device = CpuDevice::open();
  if (!device.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", device.error().message.c_str());
    return 1;
  }
  coordinator::EffectTable lessons;
  for (const SearchGraph& graph : graphs) {
    coordinator::EffectTable learned;
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::string> lines;
    std::vector<double> found;
    for (const NamedSearch& named : searches) {
      coordinator::SearchOptions options = named.options;
      options.budget = budget;
      options.target = (*device)->target();
      if (named.has_priors) {
        options.priors = std::make_shared<const coordinator::EffectTable>(lessons);
      }
      auto search = JobSearch::create(graph.graph, options, nullptr);
      if (!search.ok()) return 1;
      // Of each region by itself: that a layer takes longer than a head says nothing of a model.
      std::map<const common::Graph*, Pairs> regions;
      int64_t failed = 0;
      while (!(*search)->done()) {
        for (const coordinator::CandidateTask& task : (*search)->propose(1)) {
          coordinator::CandidateResult result = (*device)->measure(task);
          (*search)->on_result(task.id, result);
          if (result.outcome != common::TaskOutcome::kOk) {
            ++failed;
          } else if (task.payload.kind == common::TaskKind::kCandidate) {
            Pairs& pairs = regions[task.graph.get()];
            pairs.predicted.push_back(task.predicted_ns);
            pairs.measured.push_back(static_cast<double>(result.report.total_ns));
            pairs.tasks.push_back(task);
          }
        }
      }
      Pairs* most = nullptr;
      for (auto& [region, pairs] : regions) {
        if (most == nullptr || pairs.measured.size() > most->measured.size()) most = &pairs;
      }
      if (most != nullptr) measure_again(**device, *most);
      coordinator::merge_effects(learned, (*search)->lessons());
      auto outcome = (*search)->outcome();
      double best_ns =
          outcome.ok() ? static_cast<double>(outcome->plan.provenance.best_ns) : std::nan("");
      if (outcome.ok()) best = std::min(best, best_ns);
      found.push_back(best_ns);
      coordinator::SearchStatus status = (*search)->status();
      char line[512];
      std::snprintf(line, sizeof line,
                    "{\"device\":\"%s\",\"graph\":\"%s\",\"strategy\":\"%s\",\"candidates\":%lld,"
                    "\"failed\":%lld,\"duplicates\":%lld,\"baseline_ns\":%lld,\"best_ns\":%.0f,"
                    "\"spearman\":%.3f,\"spearman_over\":%zu,\"reliability\":%.3f",
                    (*device)->target().name.c_str(), graph.name.c_str(), named.name.c_str(),
                    static_cast<long long>(status.candidates), static_cast<long long>(failed),
                    static_cast<long long>(status.duplicates),
                    static_cast<long long>(status.baseline_ns), best_ns,
                    most == nullptr ? 0 : spearman(most->predicted, most->measured),
                    most == nullptr ? 0 : most->measured.size(),
                    most == nullptr ? 0 : spearman(most->measured, most->again));
      lines.emplace_back(line);
    }
    coordinator::merge_effects(lessons, learned);
    for (size_t k = 0; k < lines.size(); ++k) {
      std::printf("%s,\"regret\":%.4f}\n", lines[k].c_str(), found[k] / best - 1);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bench
