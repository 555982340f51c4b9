// search --device cpu: the same search with real measurements: how well predictions rank
// candidates, and what the plans come to.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/search/records/rank_correlation.h"
#include "tests/bench/bench.h"
#include "tests/bench/search/cpu_device.h"
#include "tests/bench/search/kept_measurements.h"
#include "tests/bench/search/search_graphs.h"

namespace bench {
namespace {

using coordinator::JobSearch;

// Rounds over all candidates: half of them against the other half tells what a prediction can have
// in common with measurements at most.
constexpr size_t kRounds = 4;
// Candidates that are enough to judge an order by.
constexpr size_t kEnough = 50;

// A candidate with its prediction, made before it ran, and what it took in each round.
struct Timed {
  coordinator::CandidateTask task;
  std::vector<double> rounds;
  std::vector<double> kernels;  // alone, the fastest of all rounds

  void note(const common::TaskReport& report) {
    rounds.push_back(static_cast<double>(report.total_ns));
    kernels.resize(report.kernel_ns.size(), std::numeric_limits<double>::infinity());
    for (size_t k = 0; k < kernels.size(); ++k) {
      kernels[k] = std::min(kernels[k], static_cast<double>(report.kernel_ns[k]));
    }
  }
  // In every `step`th round: what else runs on the machine only ever adds to a time.
  double fastest(size_t first, size_t step) const {
    double least = std::numeric_limits<double>::infinity();
    for (size_t r = first; r < rounds.size(); r += step) least = std::min(least, rounds[r]);
    return least;
  }
};

// All candidates once more, in the same order.
void measure_again(CpuDevice& device, std::vector<Timed>& candidates) {
  for (Timed& timed : candidates) {
    coordinator::CandidateResult result = device.measure(timed.task);
    if (result.outcome != common::TaskOutcome::kOk) continue;
    timed.note(result.report);
  }
}

// By candidate.
struct Times {
  std::vector<double> predicted, measured, odd_rounds, even_rounds;
};

// Appends them relative to their geometric mean.
void append_relative(std::vector<double>& to, const std::vector<double>& times) {
  double sum = 0;
  for (double ns : times) sum += std::log(ns);
  double mean = std::exp(sum / static_cast<double>(times.size()));
  for (double ns : times) to.push_back(ns / mean);
}

// The region that got most candidates; while that is too few, the next one's beside them. Each
// relative to its region's mean: that a layer takes longer than a head says nothing of a model.
Times judged_times(const std::map<const common::Graph*, std::vector<Timed>>& regions) {
  std::vector<const std::vector<Timed>*> order;
  for (const auto& [region, candidates] : regions) order.push_back(&candidates);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->size() > b->size(); });
  Times all;
  for (const std::vector<Timed>* candidates : order) {
    if (all.measured.size() >= kEnough) break;
    Times times;
    for (const Timed& timed : *candidates) {
      if (timed.rounds.size() != kRounds) continue;  // it failed in one of them
      times.predicted.push_back(timed.task.predicted_ns);
      times.measured.push_back(timed.fastest(0, 1));
      times.odd_rounds.push_back(timed.fastest(0, 2));
      times.even_rounds.push_back(timed.fastest(1, 2));
    }
    append_relative(all.predicted, times.predicted);
    append_relative(all.measured, times.measured);
    append_relative(all.odd_rounds, times.odd_rounds);
    append_relative(all.even_rounds, times.even_rounds);
  }
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// Each candidate, and each of its kernels with what constants alone predict for one call and what
// it took, with the reading of a clock.
void print_kernels(const SearchGraph& graph, const common::Target& target,
                   const std::map<const common::Graph*, std::vector<Timed>>& regions) {
  const common::DeviceTerms& terms = common::device_terms(target);
  for (const auto& [region, candidates] : regions) {
    for (const Timed& timed : candidates) {
      const common::Program& program = timed.task.payload.program;
      std::printf(
          "{\"graph\":\"%s\",\"region\":%d,\"candidate\":%llu,\"predicted_ns\":%.1f,"
          "\"measured_ns\":%.1f,\"kernels\":[",
          graph.name.c_str(), timed.task.region, static_cast<unsigned long long>(timed.task.id),
          timed.task.predicted_ns, timed.fastest(0, 1));
      std::vector<int64_t> sizes = common::representative_sizes(timed.task.graph->symbols);
      const char* comma = "";
      for (size_t c = 0; c < program.calls.size(); ++c) {
        auto k = static_cast<size_t>(program.calls[c].kernel);
        if (k >= timed.kernels.size() || timed.kernels[k] == 0) continue;  // it runs at load only
        const common::Kernel& kernel = program.kernels[k];
        double ns =
            common::predict_ns(kernel, common::call_symbols(program.calls[c], sizes), terms);
        std::printf("%s{\"predicted_ns\":%.1f,\"measured_ns\":%.1f,\"text\":\"%s\"}", comma, ns,
                    timed.kernels[k], escaped(common::print(kernel)).c_str());
        comma = ",";
      }
      std::printf("]}\n");
    }
  }
}

}  // namespace

int run_search_cpu(const std::vector<SearchGraph>& graphs, const std::vector<NamedSearch>& searches,
                   const CpuSearch& how) {
  auto device = CpuDevice::open();
  if (!device.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", device.error().message.c_str());
    return 1;
  }
  if (!how.kept.empty()) *device = keep_measurements(std::move(*device), how.kept);
  coordinator::EffectTable priors;
  for (const SearchGraph& graph : graphs) {
    coordinator::EffectTable learned;
    double best = std::numeric_limits<double>::infinity();
    std::vector<std::string> lines;
    std::vector<double> found;
    for (const NamedSearch& named : searches) {
      coordinator::SearchOptions options = named.options;
      options.budget = how.budget;
      options.target = (*device)->target();
      if (named.has_priors) {
        options.priors = std::make_shared<const coordinator::EffectTable>(priors);
      }
      auto search = JobSearch::create(graph.graph, options, nullptr);
      if (!search.ok()) return 1;
      std::map<const common::Graph*, std::vector<Timed>> regions;
      int64_t failed = 0;
      while (!(*search)->done()) {
        for (const coordinator::CandidateTask& task : (*search)->propose(1)) {
          coordinator::CandidateResult result = (*device)->measure(task);
          (*search)->on_result(task.id, result);
          if (result.outcome != common::TaskOutcome::kOk) {
            ++failed;
          } else if (task.payload.kind == common::TaskKind::kCandidate) {
            std::vector<Timed>& of_region = regions[task.graph.get()];
            of_region.push_back({task, {}, {}});
            of_region.back().note(result.report);
          }
        }
      }
      for (size_t round = 1; round < kRounds; ++round) {
        for (auto& [region, candidates] : regions) measure_again(**device, candidates);
      }
      if (how.kernels) print_kernels(graph, (*device)->target(), regions);
      Times times = judged_times(regions);
      coordinator::merge_effects(learned, (*search)->learned());
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
                    coordinator::rank_correlation(times.predicted, times.measured),
                    times.measured.size(),
                    coordinator::rank_correlation(times.odd_rounds, times.even_rounds));
      lines.emplace_back(line);
    }
    coordinator::merge_effects(priors, learned);
    for (size_t k = 0; k < lines.size(); ++k) {
      std::printf("%s,\"regret\":%.4f}\n", lines[k].c_str(), found[k] / best - 1);
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bench
