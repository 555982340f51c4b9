// search [--device sim] ...: how good the plans are that a search finds, over the candidates it
// tries, on a simulated device; strategies side by side.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>

#include "common/base/contains.h"
#include "common/cost/kernels/cost_model.h"
#include "tests/bench/bench.h"
#include "tests/bench/search/search_graphs.h"
#include "tests/bench/search/simulated_device.h"

namespace bench {
namespace {

using coordinator::JobSearch;
using coordinator::SearchOptions;
using coordinator::SearchStrategy;

constexpr double kClose = 1.05;  // of the best known time
constexpr int64_t kReported[] = {10, 30, 100, 300, 500};

struct Strategy {
  const char* name;
  SearchStrategy strategy;
  bool has_priors = false;
};
constexpr Strategy kStrategies[] = {{"random", SearchStrategy::kRandom},
                                    {"genetic", SearchStrategy::kGenetic},
                                    {"model", SearchStrategy::kModel},
                                    {"priors", SearchStrategy::kModel, true}};

struct Arguments {
  std::vector<std::string> files;
  std::vector<std::string> strategies;
  int64_t seeds = 3;
  CpuSearch how;
  double noise = 0.03;
  bool update = false;  // the file of best known times
  bool micro = false;
  bool sweep = false;
  bool cpu = false;
};

bool parse_number(const std::string& text, int64_t& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0;
}

std::optional<Arguments> parse(const std::vector<std::string>& arguments) {
  Arguments parsed;
  for (size_t k = 0; k < arguments.size(); k += 2) {
    bool* flag = arguments[k] == "--update"    ? &parsed.update
                 : arguments[k] == "--micro"   ? &parsed.micro
                 : arguments[k] == "--sweep"   ? &parsed.sweep
                 : arguments[k] == "--kernels" ? &parsed.how.kernels
                                               : nullptr;
    if (flag != nullptr) {
      *flag = true;
      --k;
      continue;
    }
    if (k + 1 == arguments.size()) return std::nullopt;
    const std::string& value = arguments[k + 1];
    if (arguments[k] == "--model") {
      parsed.files.push_back(value);
    } else if (arguments[k] == "--strategy") {
      parsed.strategies.push_back(value);
    } else if (arguments[k] == "--seeds") {
      if (!parse_number(value, parsed.seeds)) return std::nullopt;
    } else if (arguments[k] == "--budget") {
      if (!parse_number(value, parsed.how.budget)) return std::nullopt;
    } else if (arguments[k] == "--keep") {
      parsed.how.kept = value;
    } else if (arguments[k] == "--device" && (value == "sim" || value == "cpu")) {
      parsed.cpu = value == "cpu";
    } else {
      return std::nullopt;
    }
  }
  return parsed;
}

// Graphs that are variants of each other: none may learn from another's search.
bool are_related(const std::string& a, const std::string& b) {
  return a.rfind(b, 0) == 0 || b.rfind(a, 0) == 0;
}

constexpr int64_t kTrainingBudget = 150;

// What a search of each graph teaches.
std::vector<coordinator::EffectTable> train(const std::vector<SearchGraph>& graphs, double noise) {
  std::vector<coordinator::EffectTable> learned;
  for (const SearchGraph& graph : graphs) {
    SimulatedDevice device({noise, 77, true});
    SearchOptions options;
    options.budget = kTrainingBudget;
    options.seed = 77;
    auto search = JobSearch::create(graph.graph, options, nullptr);
    while (search.ok() && !(*search)->done()) {
      for (const coordinator::CandidateTask& task : (*search)->propose(1)) {
        (*search)->on_result(task.id, device.measure(task));
      }
    }
    learned.push_back(search.ok() ? (*search)->learned() : coordinator::EffectTable{});
  }
  return learned;
}

// What all unrelated graphs taught.
std::shared_ptr<const coordinator::EffectTable> priors_for(
    const SearchGraph& graph, const std::vector<SearchGraph>& graphs,
    const std::vector<coordinator::EffectTable>& learned) {
  auto priors = std::make_shared<coordinator::EffectTable>();
  for (size_t k = 0; k < graphs.size(); ++k) {
    if (!are_related(graphs[k].name, graph.name)) merge_effects(*priors, learned[k]);
  }
  return priors;
}

// What became of one search.
struct Trace {
  std::vector<double> best;  // true time of the best program, after so many candidates
  int64_t candidates = 0;
  int64_t duplicates = 0;
};

// best[n]: what would be taken if the budget had ended after n candidates.
Trace run_one(const SearchGraph& graph, const SearchOptions& options, SimulatedDevice& device,
              int64_t budget) {
  Trace trace;
  auto made = JobSearch::create(graph.graph, options, nullptr);
  if (!made.ok()) return trace;
  JobSearch& search = **made;
  std::vector<int64_t> sizes = common::representative_sizes(graph.graph.symbols);
  double best = device.true_ns(search.best_program(), sizes);
  trace.best.push_back(best);
  int64_t estimate = 0;
  while (!search.done()) {
    for (const coordinator::CandidateTask& task : search.propose(1)) {
      search.on_result(task.id, device.measure(task));
    }
    coordinator::SearchStatus status = search.status();
    // Assembling is worth its time only when something may have changed.
    if (status.expected_ns != estimate || status.expected_ns == 0) {
      estimate = status.expected_ns;
      best = device.true_ns(search.best_program(), sizes);
    }
    auto known = static_cast<size_t>(std::min(status.learned, budget));
    trace.best.resize(std::max(trace.best.size(), known + 1), best);
    trace.best.back() = best;
    trace.candidates = status.candidates;
    trace.duplicates = status.duplicates;
  }
  // A search that ran out of candidates stays where it is.
  trace.best.resize(static_cast<size_t>(budget) + 1, best);
  return trace;
}

int64_t first_close(const Trace& trace, double best_known) {
  for (size_t n = 0; n < trace.best.size(); ++n) {
    if (trace.best[n] <= best_known * kClose) return static_cast<int64_t>(n);
  }
  return static_cast<int64_t>(trace.best.size());
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += std::log(std::max(v, 1e-9));
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

// Sums over graphs and seeds, by strategy.
struct Totals {
  std::vector<double> close;
  std::map<int64_t, std::vector<double>> regret;
  int64_t reached = 0;
  int64_t duplicates = 0;
};

void report_graph(const SearchGraph& graph, const Strategy& strategy,
                  const std::vector<Trace>& traces, double best_known, Totals& totals) {
  std::vector<double> close;
  std::map<int64_t, std::vector<double>> ratio;
  int64_t duplicates = 0;
  int64_t reached = 0;
  for (const Trace& trace : traces) {
    int64_t n = first_close(trace, best_known);
    reached += n < static_cast<int64_t>(trace.best.size()) ? 1 : 0;
    close.push_back(static_cast<double>(std::max<int64_t>(n, 1)));
    duplicates += trace.duplicates;
    for (int64_t budget : kReported) {
      if (budget >= static_cast<int64_t>(trace.best.size())) continue;
      ratio[budget].push_back(trace.best[static_cast<size_t>(budget)] / best_known);
    }
  }
  std::printf("{\"graph\":\"%s\",\"strategy\":\"%s\",\"seeds\":%zu,\"best_known_ns\":%.0f,",
              graph.name.c_str(), strategy.name, traces.size(), best_known);
  for (auto& [budget, values] : ratio) {
    std::printf("\"regret_%lld\":%.4f,\"best_%lld\":[", static_cast<long long>(budget),
                geometric_mean(values) - 1, static_cast<long long>(budget));
    for (size_t k = 0; k < values.size(); ++k) {  // of each seed
      std::printf("%s%.0f", k == 0 ? "" : ",", values[k] * best_known);
    }
    std::printf("],");
    auto& all = totals.regret[budget];
    all.insert(all.end(), values.begin(), values.end());
  }
  std::printf(
      "\"candidates_to_5pct\":%.1f,\"reached\":%lld,\"candidates\":%lld,\"duplicates\":%lld}\n",
      geometric_mean(close), static_cast<long long>(reached),
      static_cast<long long>(traces.back().candidates), static_cast<long long>(duplicates));
  std::fflush(stdout);
  totals.close.insert(totals.close.end(), close.begin(), close.end());
  totals.reached += reached;
  totals.duplicates += duplicates;
}

void print_table(const std::vector<Strategy>& strategies,
                 const std::map<std::string, Totals>& all) {
  std::fprintf(stderr, "%-10s %14s %10s", "strategy", "to 5% (n)", "reached");
  for (int64_t budget : kReported) {
    std::fprintf(stderr, "  regret@%-4lld", static_cast<long long>(budget));
  }
  std::fprintf(stderr, " %11s\n", "duplicates");
  for (const Strategy& strategy : strategies) {
    const Totals& totals = all.at(strategy.name);
    std::fprintf(stderr, "%-10s %14.1f %5lld/%-4zu", strategy.name, geometric_mean(totals.close),
                 static_cast<long long>(totals.reached), totals.close.size());
    for (int64_t budget : kReported) {
      auto found = totals.regret.find(budget);
      double mean = found == totals.regret.end() ? 0 : geometric_mean(found->second) - 1;
      std::fprintf(stderr, "  %10.1f%%", mean * 100);
    }
    std::fprintf(stderr, " %11lld\n", static_cast<long long>(totals.duplicates));
  }
}

}  // namespace

int run_search(const std::vector<std::string>& arguments) {
  if (common::contains(arguments, std::string("--under-load"))) {
    return run_search_under_load(arguments);
  }
  auto parsed = parse(arguments);
  if (!parsed) {
    std::fprintf(stderr,
                 "lfarm-bench: search takes [--micro] [--sweep] [--device sim|cpu] [--model "
                 "MODEL.pt2]... [--seeds N] "
                 "[--budget N] [--update] [--strategy random|genetic|model|priors]... [--kernels] "
                 "[--keep FILE]\n");
    return 2;
  }
  auto graphs = search_graphs(parsed->files);
  if (!graphs.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", graphs.error().message.c_str());
    return 2;
  }
  std::vector<Strategy> strategies;
  for (const Strategy& strategy : kStrategies) {
    const auto& wanted = parsed->strategies;
    bool all = wanted.empty();
    if (all || common::contains(wanted, strategy.name)) {
      strategies.push_back(strategy);
    }
  }
  if (parsed->micro) {
    run_search_micro(*graphs);
    return 0;
  }
  if (parsed->sweep) return run_search_sweep(*graphs, parsed->seeds, parsed->noise);
  if (parsed->cpu) {
    std::vector<NamedSearch> searches;
    for (const Strategy& strategy : strategies) {
      // Samples and genes do not depend on priors, only what is predicted for them.
      searches.push_back({strategy.name, {}, std::string_view(strategy.name) != "model"});
      searches.back().options.strategy = strategy.strategy;
      searches.back().options.seed = 1;
    }
    return run_search_cpu(*graphs, searches, parsed->how);
  }
  std::vector<coordinator::EffectTable> learned;
  if (std::any_of(strategies.begin(), strategies.end(),
                  [](const Strategy& strategy) { return strategy.has_priors; })) {
    learned = train(*graphs, parsed->noise);
  }
  BestKnown records(LFARM_BEST_KNOWN);
  std::map<std::string, Totals> totals;
  for (const SearchGraph& graph : *graphs) {
    SimulatedDevice reference({});
    double best_known = std::numeric_limits<double>::infinity();
    if (!records.has(graph)) best_known = descend(graph.graph, reference);
    std::map<std::string, std::vector<Trace>> traces;
    for (const Strategy& strategy : strategies) {
      for (int64_t seed = 1; seed <= parsed->seeds; ++seed) {
        SimulatedDevice device({parsed->noise, static_cast<uint64_t>(seed), true});
        SearchOptions options;
        options.budget =
            parsed->how.budget + 16;  // the last few make room for what is not yet known
        options.seed = static_cast<uint64_t>(seed);
        options.target.name = "simulated";
        options.strategy = strategy.strategy;
        if (strategy.has_priors) options.priors = priors_for(graph, *graphs, learned);
        traces[strategy.name].push_back(run_one(graph, options, device, parsed->how.budget));
        if (traces[strategy.name].back().best.empty()) return 1;
        const auto& best = traces[strategy.name].back().best;
        best_known = std::min(best_known, *std::min_element(best.begin(), best.end()));
      }
    }
    best_known = records.lower(graph, best_known);
    for (const Strategy& strategy : strategies) {
      report_graph(graph, strategy, traces[strategy.name], best_known, totals[strategy.name]);
    }
  }
  print_table(strategies, totals);
  if (!parsed->update) return 0;
  common::Status saved = records.save();
  if (!saved.ok()) std::fprintf(stderr, "lfarm-bench: %s\n", saved.error().message.c_str());
  return saved.ok() ? 0 : 1;
}

}  // namespace bench
