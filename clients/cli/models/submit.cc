// lfarm submit: finds the fastest plan for a model.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clients/cli/access/plan_source.h"
#include "clients/cli/access/record_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/device_roofline.h"
#include "clients/cli/base/report.h"
#include "clients/cli/models/exported_model.h"
#include "clients/pt2/translate.h"
#include "clients/report/logs/trace_log.h"
#include "clients/runtime/model/size_ranges.h"
#include "clients/score/model_work.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/sizes.h"
#include "common/plan/run_memory.h"
#include "common/plan/speedup.h"
#include "common/records/database.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;

struct SubmitOptions {
  FarmOptions farm;
  BudgetOptions budget;
  ExportOptions exported;
  std::string model;
  std::string name;  // of the model; see ModelFile
  std::string sizes;
  std::string record;  // file; empty: none
  bool json = false;
};

struct Outcome {
  std::string sizes;  // that the plan is for; empty: all that the model takes
  CompiledPlan plan;
  std::vector<common::StageTime> breakdown;  // this process's stages and the farm's
  double seconds = 0;
  std::optional<double> of_roofline;  // see roofline_share()
};

// The least time that this machine's device could take for the graph over the plan's time, as
// `lfarm plan score` and `lfarm-bench models` tell it. Empty where the plan is for another machine,
// or no time or roofline is known; only a search is worth the second that measuring takes.
std::optional<double> roofline_share(const FarmOptions& farm, const common::Graph& graph,
                                     const PulledPlan& pulled) {
  const common::Plan& plan = pulled.plan;
  bool is_here = !plan.provenance.machine.empty() && plan.provenance.machine == machine_of(farm);
  if (!is_here || pulled.facts.best_ns == 0) return std::nullopt;
  bool is_hit = pulled.facts.cache == common::CacheOutcome::kHit;
  auto roofline = device_roofline(farm.state, plan.key.target,
                                  is_hit ? RooflineUse::kKept : RooflineUse::kMeasure);
  if (!roofline.ok()) return std::nullopt;
  ModelWork work = work_of(graph, common::representative_sizes(graph.symbols));
  double least = least_ns(work, *roofline);
  if (least <= 0) return std::nullopt;
  return least / static_cast<double>(pulled.facts.best_ns);
}

std::string name_problem(const std::string& name) {
  return common::is_clean_line(name) ? "" : "a name is one line of at most 256 bytes of UTF-8 text";
}

// Bytes of a run with one thread, and the calls that are repeated to need no more.
nlohmann::ordered_json memory_json(const common::Plan& plan) {
  std::vector<int64_t> sizes = common::representative_sizes(plan.symbols);
  std::vector<int> repeated = common::repeated_calls(plan.calls, plan.buffers.size());
  return {{"arena_bytes", common::run_liveness(plan, sizes).arena_bytes()},
          {"scratch_bytes", common::scratch_bytes(plan, sizes, 1)},
          {"calls", repeated.size()},
          {"repeated",
           std::count_if(repeated.begin(), repeated.end(), [](int first) { return first >= 0; })}};
}

std::string json_text(const Outcome& outcome) {
  const common::PlanReady& facts = outcome.plan.pulled.facts;
  const common::PlanKey& key = outcome.plan.pulled.plan.key;
  const common::Provenance& chosen = outcome.plan.pulled.plan.provenance;
  nlohmann::ordered_json breakdown = nlohmann::ordered_json::object();
  for (const common::StageTime& stage : outcome.breakdown) breakdown[stage.stage] = stage.ms;
  nlohmann::ordered_json json{
      {"graph_hash", key.graph_hash.hex()},
      {"plan", outcome.plan.pulled.id.hex()},
      {"key", facts.plan_key.hex()},
      {"target", key.target.name},
      {"kernels", outcome.plan.pulled.plan.kernels.size()},
      {"calls", outcome.plan.pulled.plan.calls.size()},
      {"cache", common::cache_outcome_name(facts.cache)},
      {"candidates", facts.candidates},
      {"reuse",
       {{"kernels", facts.reuse.kernels},
        {"kernels_found", facts.reuse.known_kernels},
        {"regions", facts.reuse.regions},
        {"regions_found", facts.reuse.known_regions},
        {"worker_s", static_cast<double>(facts.reuse.worker_ms) / 1e3},
        {"saved_s", static_cast<double>(facts.reuse.saved_ms) / 1e3}}},
      {"best_ns", facts.best_ns},
      {"baseline_ns", facts.baseline_ns},
      {"roofline", outcome.of_roofline ? nlohmann::ordered_json(*outcome.of_roofline)
                                       : nlohmann::ordered_json()},
      {"speedup", chosen.speedup.ratio},
      {"speedup_low", chosen.speedup.low},
      {"speedup_high", chosen.speedup.high},
      {"disturbed", chosen.disturbed},
      {"seconds", outcome.seconds},
      {"memory", memory_json(outcome.plan.pulled.plan)},
      {"note", facts.note},
      {"breakdown", std::move(breakdown)}};
  if (!outcome.sizes.empty()) json["sizes"] = outcome.sizes;
  return json.dump();
}

void print_text(const Outcome& outcome) {
  const common::PlanReady& facts = outcome.plan.pulled.facts;
  const common::PlanKey& key = outcome.plan.pulled.plan.key;
  auto best = static_cast<double>(facts.best_ns), plain = static_cast<double>(facts.baseline_ns);
  if (!outcome.sizes.empty()) std::printf("sizes       %s\n", outcome.sizes.c_str());
  std::printf("graph       %s\n", key.graph_hash.hex().c_str());
  std::printf("plan        %s for %s\n", outcome.plan.pulled.id.hex().c_str(),
              key.target.name.c_str());
  const common::Plan& chosen = outcome.plan.pulled.plan;
  std::printf("kernels     %zu, in %zu calls\n", chosen.kernels.size(), chosen.calls.size());
  std::printf("cache       %s\n", common::cache_outcome_name(facts.cache));
  const common::Reuse& reuse = facts.reuse;
  if (reuse.regions != 0) {
    std::printf("found       %s of %s kernels, %s of %s regions\n",
                cat(reuse.known_kernels).c_str(), cat(reuse.kernels).c_str(),
                cat(reuse.known_regions).c_str(), cat(reuse.regions).c_str());
    std::printf("workers     %s; earlier ones spared them %s\n",
                duration_text(static_cast<double>(reuse.worker_ms) * 1e6).c_str(),
                duration_text(static_cast<double>(reuse.saved_ms) * 1e6).c_str());
  }
  std::printf("memory      %s\n", common::memory_text(outcome.plan.pulled.plan).c_str());
  std::printf("candidates  %llu tried\n", static_cast<unsigned long long>(facts.candidates));
  std::printf("best        %s a run", duration_text(best).c_str());
  if (outcome.of_roofline) std::printf(", %.2f of the roofline", *outcome.of_roofline);
  if (best > 0 && plain > 0) {
    std::printf("; %s as fast as the plain plan's %s",
                common::speedup_text(outcome.plan.pulled.plan.provenance).c_str(),
                duration_text(plain).c_str());
  }
  if (!facts.note.empty()) std::printf("\nnote        %s", facts.note.c_str());
  std::printf("\ntook        %s\n", duration_text(outcome.seconds * 1e9).c_str());
  for (const common::StageTime& stage : outcome.breakdown) {
    std::printf("  %-18s %s\n", stage.stage.c_str(), duration_text(stage.ms * 1e6).c_str());
  }
}

// The farm's stages say where the time of this process's stage "farm" went; what they leave is
// waiting and transport.
std::vector<common::StageTime> breakdown_of(const std::vector<common::StageTime>& before,
                                            const CompiledPlan& plan) {
  std::vector<common::StageTime> all = before;
  double farm_ms = 0;
  for (const common::StageTime& stage : plan.pulled.facts.breakdown) farm_ms += stage.ms;
  for (const common::StageTime& stage : plan.stages) {
    if (stage.stage != "farm") {
      all.push_back(stage);
      continue;
    }
    for (const common::StageTime& part : plan.pulled.facts.breakdown) {
      all.push_back({"farm: " + part.stage, part.ms});
    }
    all.push_back({"farm: the rest", std::max(0.0, stage.ms - farm_ms)});
  }
  return all;
}

// What the farm's job tried on its way to the plan, where there was one and the farm tells of it.
common::Status keep_course(const SubmitOptions& options, const Outcome& outcome,
                           const common::Record& record, PlanSource* source) {
  const PulledPlan& pulled = outcome.plan.pulled;
  if (pulled.facts.job_id == 0) return {};
  auto trace = source->trace(pulled.facts.job_id);
  if (!trace.ok()) return {};  // a farm may keep none
  TracedPlan found;
  // Parts of a model's sizes are searches of their own.
  std::string name = record.sizes.empty()
                         ? record.model
                         : common::record_text(cat(record.model, ", ", record.sizes));
  found.head = {name, record.machine, record.device, "", record.at_ns};
  found.plan = pulled.id.hex();
  found.best_ms = static_cast<double>(pulled.plan.provenance.best_ns) / 1e6;
  found.baseline_ms = static_cast<double>(pulled.plan.provenance.baseline_ns) / 1e6;
  LFARM_ASSIGN_OR_RETURN(common::RunLog log, log_of_trace(*trace, found));
  return common::append_logs(options.record, {&log, 1});
}

// The search that found the plan, now or earlier.
common::Status keep_search(const SubmitOptions& options, const Outcome& outcome,
                           PlanSource* source) {
  const common::Plan& plan = outcome.plan.pulled.plan;
  const common::Provenance& from = plan.provenance;
  if (options.record.empty() || from.best_ns <= 0) return {};
  common::Record record = record_here("lfarm submit", plan.key.target.name, "lfarm", options.name);
  record.sizes = common::record_text(outcome.sizes);
  record.search = common::SearchPoint{"farm",
                                      from.search.candidates,
                                      from.search.candidates,
                                      from.search.seed,
                                      static_cast<double>(from.best_ns),
                                      static_cast<double>(from.baseline_ns)};
  LFARM_RETURN_IF_ERROR(common::append_records(options.record, {&record, 1}));
  return keep_course(options, outcome, record, source);
}

// One graph's plan, found and printed. `start_ns`: when the user began to wait for it; `before`:
// what that went on until here.
common::Status submit_graph(const SubmitOptions& options, const common::Graph& graph,
                            const std::string& sizes, int64_t start_ns,
                            const std::vector<common::StageTime>& before, PlanSource* source,
                            Progress* progress) {
  auto plan = source->obtain(graph, options.name);
  progress->clear();
  if (!plan.ok()) return plan.error();
  Outcome outcome;
  outcome.sizes = sizes;
  outcome.seconds = static_cast<double>(common::SteadyClock().now_ns() - start_ns) * 1e-9;
  outcome.breakdown = breakdown_of(before, *plan);
  outcome.plan = std::move(*plan);
  outcome.of_roofline = roofline_share(options.farm, graph, outcome.plan.pulled);
  if (options.json) {
    std::printf("%s\n", json_text(outcome).c_str());
  } else {
    print_text(outcome);
  }
  std::fflush(stdout);
  return keep_search(options, outcome, source);
}

int submit(SubmitOptions options) {
  common::SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  auto ranges = parse_size_ranges(options.sizes);
  if (!ranges.ok()) return fail(ranges.error());
  std::vector<common::StageTime> before;
  auto lap = [&clock, &before, from_ns = start_ns](const char* stage) mutable {
    int64_t now_ns = clock.now_ns();
    before.push_back({stage, static_cast<double>(now_ns - from_ns) * 1e-6});
    from_ns = now_ns;
  };
  auto file = model_file_of(options.model, options.exported);
  if (!file.ok()) return fail(file.error());
  if (file->is_exported_here) lap("export");
  options.name = file->name;
  auto model = load_model(file->path);
  if (!model.ok()) return fail(model.error());
  lap("translate");

  // What is wrong with one part is said before another is searched for.
  std::vector<std::pair<std::string, common::Graph>> parts;
  for (const SizeRanges& sizes : *ranges) {
    auto graph = for_sizes(model->graph, sizes);
    if (!graph.ok()) return fail(graph.error());
    parts.emplace_back(text_of(sizes), std::move(*graph));
  }
  if (parts.empty()) parts.emplace_back("", model->graph);

  Progress progress(options.json);
  // Whoever submits wants what the farm has now, which may be better than what it had.
  PlanSource source(options.farm, options.budget, &progress, PlanSource::Disk::kKeep);
  for (const auto& [sizes, graph] : parts) {
    common::Status done = submit_graph(options, graph, sizes, start_ns, before, &source, &progress);
    if (!done.ok()) return fail(done.error());
    start_ns = clock.now_ns();
    before = {{"translate", 0}};
  }
  return kExitDone;
}

}  // namespace

void declare_submit(CommandLine* line) {
  auto options = std::make_shared<SubmitOptions>();
  Command command = line->add(
      "submit",
      "Finds the fastest plan for a model and keeps it in the cache. Without --farm the farm of\n"
      "the state directory is used; if none runs, one is started and stopped again when done.\n"
      "The model may also be an .onnx file, or package.module:callable: a torch.nn.Module, a "
      "class\n"
      "of them, a function that returns one, or a function of tensors.",
      [options] { return submit(*options); });
  add_model_argument(&command, &options->model);
  add_compile_options(&command, &options->farm, &options->budget);
  add_target_option(&command, &options->farm);
  command
      .value("--name", &options->budget.name, "NAME",
             "What the farm's page and lists call it (default: the file's name, or its folder's\n"
             "where that is model.pt2)")
      .check(name_problem);
  command.flag(
      "--force", &options->budget.force,
      "Search on although the plan in the cache was given as much; the better one is kept");
  command.value("--sizes", &options->sizes, "s0=1;s0=2..128",
                "A plan for each of these parts of the model's sizes, as programs that run it\n"
                "name them, too (lfarm_options.sizes); s0 is what print --stage hlir calls it");
  add_record_option(&command, &options->record);
  add_export_options(&command, &options->exported);
  command.heading("Options");
  command.flag("--json", &options->json,
               "Print the result as one JSON object, or one for each part of the sizes");
}

}  // namespace clients
