// search --under-load L: what searches find on a busy machine. A farm of its own searches for each
// model from nothing, once in quiet and once beside L busy processes, with the same seed and
// budget; afterwards, in quiet, both plans and the plain one run in turns.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/compare/measured_model.h"
#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/sizes.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "coordinator/search/job_search.h"
#include "tests/bench/bench.h"
#include "tests/bench/search/busy_processes.h"
#include "worker/backend/backend.h"
#include "worker/compile/build_plan.h"
#include "worker/profile/measure.h"

namespace bench {
namespace {

using clients::MeasuredModel;
using common::cat;
using common::Result;

constexpr auto kQuietPause = std::chrono::milliseconds(500);
constexpr uint32_t kRounds = 200;
constexpr uint32_t kTimeMs = 2'000;
constexpr int kLoads = 3;

struct Arguments {
  std::vector<int> loads;
  std::vector<std::string> models;
  int seeds = 3;
  int64_t budget = 64;
  bool json = false;
};

template <class Number>
bool parse_number(const std::string& text, Number& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0;
}

std::optional<Arguments> parse(const std::vector<std::string>& arguments) {
  Arguments parsed;
  for (size_t k = 0; k < arguments.size(); ++k) {
    if (arguments[k] == "--json") {
      parsed.json = true;
      continue;
    }
    if (k + 1 == arguments.size()) return std::nullopt;
    const std::string &name = arguments[k], &value = arguments[++k];
    int load = 0;
    if (name == "--model") {
      parsed.models.push_back(value);
    } else if (name == "--under-load" && parse_number(value, load)) {
      parsed.loads.push_back(load);
    } else if (!(name == "--seeds" && parse_number(value, parsed.seeds)) &&
               !(name == "--budget" && parse_number(value, parsed.budget))) {
      return std::nullopt;
    }
  }
  if (parsed.models.empty() || parsed.loads.empty()) return std::nullopt;
  return parsed;
}

// A plan with its machine code.
struct Runnable {
  common::Plan plan;
  common::ObjectSource objects;
};

// What a farm of its own finds, from nothing.
Result<clients::PulledPlan> search(const MeasuredModel& model, const Arguments& how, int seed) {
  LFARM_ASSIGN_OR_RETURN(auto state, common::ScratchDirectory::create("lfarm-under-load"));
  clients::FarmOptions farm;
  farm.state = state.path();
  farm.device = "cpu";
  clients::BudgetOptions budget;
  budget.candidates = how.budget;
  budget.seed = static_cast<uint64_t>(seed);
  return clients::plan_for(model, farm, budget);
}

// The plain program, compiled here.
class PlainPlan {
 public:
  static Result<PlainPlan> make(const common::Graph& graph) {
    coordinator::SearchOptions options;
    options.budget = 2;
    LFARM_ASSIGN_OR_RETURN(options.target, worker::cpu_backend().find());
    LFARM_ASSIGN_OR_RETURN(auto search, coordinator::JobSearch::create(graph, options, nullptr));
    std::vector<coordinator::CandidateTask> tasks = search->propose(1);
    if (tasks.empty()) return common::internal_error("the search begins without the plain program");
    LFARM_ASSIGN_OR_RETURN(auto compiler,
                           worker::cpu_backend().find_compiler(options.target, nullptr));
    auto generator = worker::cpu_backend().make_generator(options.target);
    worker::KernelCache cache("");
    PlainPlan plain;
    common::Program& program = tasks[0].payload.program;
    common::add_nests(program, {common::machine_of(options.target), options.target.name, {}});
    LFARM_ASSIGN_OR_RETURN(plain.built_, worker::build_plan(program, *generator, *compiler, cache));
    plain.built_.plan.key.target = options.target;
    return plain;
  }
  Runnable runnable() const {
    return {built_.plan, [this](const common::Digest& digest) -> Result<common::ByteView> {
              auto found = built_.objects.find(digest);
              if (found == built_.objects.end()) return common::corrupt("an object is missing");
              return common::ByteView(*found->second);
            }};
  }

 private:
  worker::BuiltPlan built_;
};

// The plans in turns, on one device and the same inputs, as they lie in memory this time.
Result<worker::Comparison> compare_once(const common::Graph& graph,
                                        const std::vector<Runnable>& plans) {
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device("cpu", clients::default_threads()));
  LFARM_ASSIGN_OR_RETURN(
      auto values, common::synthetic_inputs(graph, common::representative_sizes(graph.symbols), 1,
                                            common::InputPattern::kNormal));
  std::vector<std::unique_ptr<common::Executor>> executors;
  std::vector<std::vector<common::HostTensor>> inputs;
  for (const Runnable& one : plans) {
    common::ExecutorOptions options;
    options.cold_caches = true;
    LFARM_ASSIGN_OR_RETURN(auto executor,
                           common::Executor::load(one.plan, one.objects, *device, options));
    LFARM_ASSIGN_OR_RETURN(auto bound, common::bind_inputs(*executor, values));
    executors.push_back(std::move(executor));
    inputs.push_back(std::move(bound));
  }
  std::vector<worker::Loaded> loaded;
  for (size_t k = 0; k < plans.size(); ++k) loaded.push_back({executors[k].get(), inputs[k]});
  common::MeasureOptions options;
  options.repetitions = kRounds;
  options.time_max_ms = kTimeMs;
  return worker::compare(loaded, options);
}

// Where programs and data lie in memory decides some percent of a short program's time, also
// between two copies of one plan: of several loads the one in the middle, and the widest interval.
Result<std::vector<worker::Ratio>> compare_plans(const common::Graph& graph,
                                                 const std::vector<Runnable>& plans) {
  std::vector<std::vector<worker::Ratio>> loads;
  for (int load = 0; load < kLoads; ++load) {
    LFARM_ASSIGN_OR_RETURN(worker::Comparison compared, compare_once(graph, plans));
    loads.push_back(std::move(compared.ratios));
  }
  std::vector<worker::Ratio> all;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    std::vector<worker::Ratio> ratios;
    for (const auto& load : loads) ratios.push_back(load[plan]);
    std::sort(ratios.begin(), ratios.end(),
              [](const auto& a, const auto& b) { return a.median < b.median; });
    worker::Ratio middle = ratios[ratios.size() / 2];
    for (const worker::Ratio& ratio : ratios) {
      middle.low = std::min(middle.low, ratio.low);
      middle.high = std::max(middle.high, ratio.high);
    }
    all.push_back(middle);
  }
  return all;
}

// Whether two plans are one program, whose copies differ by where they lie in memory alone.
bool is_same(const common::Plan& a, const common::Plan& b) {
  return a.buffers == b.buffers && a.calls == b.calls &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), b.kernels.end(),
                    [](const auto& x, const auto& y) { return x.fingerprint == y.fingerprint; });
}

struct Summary {
  int slower_than_plain = 0;
  std::vector<double> regrets;
};

void report(const Arguments& how, const std::string& model, int seed, int load,
            const worker::Ratio& ratio, double regret, const clients::PulledPlan& plan,
            Summary& summary) {
  summary.slower_than_plain += ratio.high < 1 ? 1 : 0;
  summary.regrets.push_back(regret);
  const common::Provenance& told = plan.plan.provenance;
  if (how.json) {
    std::printf(
        "{\"model\":\"%s\",\"seed\":%d,\"load\":%d,\"ratio_to_plain\":%.4f,\"ratio_low\":%.4f,"
        "\"ratio_high\":%.4f,\"regret\":%.4f,\"told\":%.4f,\"told_low\":%.4f,\"told_high\":%.4f}\n",
        model.c_str(), seed, load, ratio.median, ratio.low, ratio.high, regret, told.speedup.ratio,
        told.speedup.low, told.speedup.high);
  } else {
    std::printf(
        "%-24s seed %d load %2d  %.2f times plain (told %.2f, %.2f to %.2f), regret %.1f %%\n",
        model.c_str(), seed, load, ratio.median, told.speedup.ratio, told.speedup.low,
        told.speedup.high, regret * 100);
  }
  std::fflush(stdout);
}

void print_summary(const Arguments& how, int load, Summary& summary) {
  std::sort(summary.regrets.begin(), summary.regrets.end());
  double median = summary.regrets.empty() ? 0 : summary.regrets[summary.regrets.size() / 2];
  double worst = summary.regrets.empty() ? 0 : summary.regrets.back();
  if (how.json) {
    std::printf(
        "{\"summary\":true,\"load\":%d,\"searches\":%zu,\"slower_than_plain\":%d,"
        "\"median_regret\":%.4f,\"worst_regret\":%.4f}\n",
        load, summary.regrets.size(), summary.slower_than_plain, median, worst);
  } else {
    std::printf(
        "load %d: %zu searches, %d slower than plain, regret %.1f %% median, %.1f %% worst\n", load,
        summary.regrets.size(), summary.slower_than_plain, median * 100, worst * 100);
  }
}

common::Status search_model(const Arguments& how, const std::string& path,
                            std::map<int, Summary>& summaries) {
  LFARM_ASSIGN_OR_RETURN(MeasuredModel model, clients::open_model(path));
  const common::Graph& graph = model.model->graph;
  LFARM_ASSIGN_OR_RETURN(PlainPlan plain, PlainPlan::make(common::canonical(graph)));
  for (int seed = 1; seed <= how.seeds; ++seed) {
    LFARM_ASSIGN_OR_RETURN(clients::PulledPlan quiet, search(model, how, seed));
    for (int load : how.loads) {
      Result<clients::PulledPlan> found = [&] {
        BusyProcesses busy(load);
        return search(model, how, seed);
      }();
      if (!found.ok()) return found.error();
      std::this_thread::sleep_for(kQuietPause);
      LFARM_ASSIGN_OR_RETURN(
          std::vector<worker::Ratio> ratios,
          compare_plans(common::canonical(graph), {plain.runnable(),
                                                   {quiet.plan, quiet.object_source()},
                                                   {found->plan, found->object_source()}}));
      worker::Ratio ratio = ratios[2];
      if (is_same(plain.runnable().plan, found->plan)) ratio = {1, 1, 1};
      double regret = ratios[1].median / ratios[2].median - 1;
      if (is_same(quiet.plan, found->plan)) regret = 0;
      report(how, model.name, seed, load, ratio, regret, *found, summaries[load]);
    }
  }
  return {};
}

}  // namespace

int run_search_under_load(const std::vector<std::string>& arguments) {
  auto parsed = parse(arguments);
  if (!parsed) {
    std::fprintf(
        stderr,
        "lfarm-bench: search takes --under-load L... --model MODEL.pt2|CASE... [--seeds N] "
        "[--budget N] [--json]\n");
    return 2;
  }
  std::map<int, Summary> summaries;
  for (const std::string& model : parsed->models) {
    common::Status done = search_model(*parsed, model, summaries);
    if (done.ok()) continue;
    std::fprintf(stderr, "lfarm-bench: %s: %s\n", model.c_str(), done.error().message.c_str());
    return 1;
  }
  for (auto& [load, summary] : summaries) print_summary(*parsed, load, summary);
  return 0;
}

}  // namespace bench
