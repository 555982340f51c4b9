// lfarm plan score: a plan's scorecard.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/access/plan_source.h"
#include "clients/cli/access/record_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/device_roofline.h"
#include "clients/cli/base/report.h"
#include "clients/cli/plans/find_plan.h"
#include "clients/cli/plans/plan_profile.h"
#include "clients/generate/programs.h"
#include "clients/report/logs/plan_memory.h"
#include "clients/runtime/model/instance.h"
#include "clients/score/other_runtime.h"
#include "clients/score/scorecard_text.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/records/database.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;

struct ScoreOptions {
  FarmOptions farm;
  BudgetOptions budget;
  std::string what;  // a plan's or a graph's id, or a model file
  std::string sizes;
  std::string against;
  std::vector<std::string> previous;
  std::string record;
  int64_t tokens = 0;               // that a call computes; 0: it does not compute tokens
  double gflops = 0, gb_per_s = 0;  // 0: not given
  bool generates = false;           // the model's program for `lfarm generate`
  bool measure_again = false;
  bool json = false;
};

// ---- What is scored ----------------------------------------------------------------------------

struct Scored {
  PulledPlan plan;
  std::shared_ptr<const Model> model;  // null where only the plan is known
  std::string name;                    // for records
};

Result<PulledPlan> plan_of_cache(const ScoreOptions& options) {
  if (!options.farm.farm.empty()) {
    return common::invalid_input("a farm elsewhere is asked by the model's file, not by an id");
  }
  LFARM_ASSIGN_OR_RETURN(auto cache, PlanCache::open({options.farm.state}));
  LFARM_ASSIGN_OR_RETURN(cache::PlanListing listing, listing_of_id(*cache, options.what));
  LFARM_ASSIGN_OR_RETURN(common::Plan plan, cache->read(listing));
  LFARM_ASSIGN_OR_RETURN(auto found, cache->find(plan.key, plan.provenance.machine));
  if (!found) return not_cached(options.what);
  return std::move(*found);
}

// The model; with --generate its program for calls of --tokens tokens.
Result<std::shared_ptr<const Model>> model_of(const ScoreOptions& options) {
  LFARM_ASSIGN_OR_RETURN(Model loaded, load_model(options.what));
  auto model = std::make_shared<const Model>(std::move(loaded));
  if (!options.generates) return model;
  LFARM_ASSIGN_OR_RETURN(std::vector<WidthPart> parts, parts_of(model));
  if (options.tokens == 0) return parts.back().model;
  for (const WidthPart& part : parts) {
    if (options.tokens < part.roles.width_least || options.tokens > part.roles.width_most) continue;
    return part.model;
  }
  return common::invalid_input(cat(options.what, ": no call takes ", options.tokens,
                                   " tokens: give another number by --tokens"));
}

Result<Scored> find_scored(const ScoreOptions& options) {
  Scored scored;
  std::error_code ignored;
  if (!std::filesystem::exists(options.what, ignored)) {
    if (options.generates) {
      return common::invalid_input(
          cat("--generate wants a model, and there is no file ", options.what));
    }
    LFARM_ASSIGN_OR_RETURN(scored.plan, plan_of_cache(options));
    scored.name = cat("graph ", scored.plan.plan.key.graph_hash.short_hex());
    return scored;
  }
  LFARM_ASSIGN_OR_RETURN(scored.model, model_of(options));
  Progress progress(true);
  PlanSource source(options.farm, options.budget, &progress, PlanSource::Disk::kUse);
  auto plan = source.obtain(scored.model->graph);
  progress.clear();
  if (!plan.ok()) return plan.error();
  scored.plan = std::move(plan->pulled);
  scored.name = model_name(options.what);
  return scored;
}

// ---- What it is held against -------------------------------------------------------------------

Result<Roofline> roofline_of(const ScoreOptions& options, const common::Target& target) {
  auto found =
      device_roofline(options.farm.state, target,
                      options.measure_again ? RooflineUse::kMeasureAgain : RooflineUse::kMeasure);
  bool is_given = options.gflops > 0 && options.gb_per_s > 0;
  if (!found.ok() && !is_given) {
    return common::invalid_input(
        cat(found.error().message, ": give --peak-gflops and --peak-gb-s"));
  }
  Roofline roofline;
  if (found.ok()) {
    roofline = std::move(*found);
  } else {
    roofline.device = target.name;
    roofline.launch_ns = data_sheet("H200")->launch_ns;  // as others take
  }
  if (options.gflops > 0) {
    roofline.operations_per_s = options.gflops * 1e9;
    roofline.half_operations_per_s = 0;
    roofline.source = "given";
  }
  if (options.gb_per_s > 0) {
    roofline.reads = {{0, options.gb_per_s * 1e9}};
    roofline.source = "given";
  }
  return roofline;
}

// The same model at the same sizes on this machine and device, of `lfarm plan score`.
Result<std::vector<EarlierRun>> runs_of_records(const std::string& path, const PlanRun& run,
                                                const std::string& name) {
  using common::RecordDatabase;
  LFARM_ASSIGN_OR_RETURN(RecordDatabase database,
                         RecordDatabase::open(path, RecordDatabase::Access::kRead));
  LFARM_ASSIGN_OR_RETURN(std::vector<common::Record> records, database.read_all());
  std::vector<EarlierRun> earlier;
  for (const common::Record& record : records) {
    if (record.latency && record.source == "lfarm plan score" && record.model == name &&
        record.device == run.target && record.sizes == run.sizes &&
        record.machine == common::machine_name()) {
      earlier.push_back({*record.latency, {}});
    }
  }
  return earlier;
}

bool is_database(std::string_view text) { return text.starts_with("SQLite format 3"); }

Result<std::vector<EarlierRun>> earlier_runs(const ScoreOptions& options, const PlanRun& run,
                                             const std::string& name) {
  std::vector<EarlierRun> all;
  std::vector<std::string> files = options.previous;
  // What is added to is what came before.
  if (!options.record.empty() && common::file_exists(options.record)) {
    files.push_back(options.record);
  }
  for (const std::string& file : files) {
    LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(file));
    if (is_database(text)) {
      LFARM_ASSIGN_OR_RETURN(auto runs, runs_of_records(file, run, name));
      all.insert(all.end(), runs.begin(), runs.end());
    } else {
      LFARM_ASSIGN_OR_RETURN(EarlierRun earlier, parse_scorecard(text, file, run));
      all.push_back(std::move(earlier));
    }
  }
  return all;
}

Result<std::optional<OtherRuntime>> other_runtime(const ScoreOptions& options) {
  if (options.against.empty()) return std::optional<OtherRuntime>();
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(options.against, kProfileBytesMax));
  LFARM_ASSIGN_OR_RETURN(OtherRuntime other, parse_other_runtime(text, options.against));
  return std::optional(std::move(other));
}

// ---- The card ----------------------------------------------------------------------------------

Status keep(const ScoreOptions& options, const Scorecard& card, const std::string& name) {
  if (options.record.empty() || card.run.latency.median_ns <= 0) return {};
  common::Record record = record_here("lfarm plan score", card.run.target, "lfarm", name);
  record.sizes = common::record_text(card.run.sizes);
  record.latency = card.run.latency;
  LFARM_RETURN_IF_ERROR(common::append_records(options.record, {&record, 1}));
  if (card.run.memory.empty()) return {};
  PlanMemory memory;
  memory.head = {record.model, record.machine, record.device, record.sizes, record.at_ns};
  memory.id = card.run.plan;
  memory.memory = card.run.memory;
  for (const KernelRun& kernel : card.run.kernels) {
    memory.kernels.push_back({common::record_text(kernel.name), common::record_text(kernel.modules),
                              common::record_text(kernel.sources), kernel.calls,
                              kernel.latency.median_ns / 1e6});
  }
  common::RunLog log = log_of(memory);
  return common::append_logs(options.record, {&log, 1});
}

Result<Scorecard> make_card(const ScoreOptions& options) {
  LFARM_ASSIGN_OR_RETURN(auto other, other_runtime(options));  // what is wrong is said at once
  LFARM_ASSIGN_OR_RETURN(Scored scored, find_scored(options));
  const common::Plan& plan = scored.plan.plan;
  LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, sizes_of(plan, options.sizes));
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device(options.farm.device, default_threads()));
  LFARM_ASSIGN_OR_RETURN(Roofline roofline, roofline_of(options, device->target()));
  LFARM_ASSIGN_OR_RETURN(PlanRun run,
                         profile_plan(scored.plan, scored.model.get(), sizes, *device));
  // Without them the card counts bytes alone, and says so.
  (void)count_operations(scored.plan, options.farm.state, sizes, &run);
  LFARM_ASSIGN_OR_RETURN(auto earlier, earlier_runs(options, run, scored.name));
  Scorecard card = score(std::move(run), std::move(roofline), earlier, other ? &*other : nullptr,
                         static_cast<double>(options.tokens));
  LFARM_RETURN_IF_ERROR(keep(options, card, scored.name));
  return card;
}

int plan_score(const ScoreOptions& options) {
  auto card = make_card(options);
  if (!card.ok()) return fail(card.error());
  std::string text = options.json ? json_of(*card) : markdown_of(*card);
  std::fwrite(text.data(), 1, text.size(), stdout);
  for (const Regression& one : card->regressions) {
    if (one.change == Change::kCritical) return kExitFailed;
  }
  return kExitDone;
}

}  // namespace

void declare_plan_score(CommandLine* line) {
  auto options = std::make_shared<ScoreOptions>();
  Command command = line->add(
      "plan score",
      "Runs a plan kernel by kernel and prints its scorecard (docs/measuring.md): efficiency\n"
      "against the device's roofline, bottleneck, hot kernels, regressions, parity. A model's "
      "plan\n"
      "is compiled if need be. Exits with 1 when a regression is critical.",
      [options] { return plan_score(*options); });
  command.value("plan", &options->what, "ID|MODEL.pt2", "The plan's or the graph's id, or a model")
      .required()
      .stands_for(model_file);
  command.value("--sizes", &options->sizes, "s0=4,s1=128",
                "The sizes to run at (default: those that searches measure with)");
  command
      .value("--tokens", &options->tokens, "N",
             "Tokens that a call computes: the card then has tokens a second, beside the rate at\n"
             "which memory could give the bytes of a call")
      .in_range(int64_t{1}, int64_t{1} << 32);
  command.flag(
      "--generate", &options->generates,
      "Scores what 'lfarm generate' runs of a language model, with the last token's logits\n"
      "alone: its program for calls of --tokens tokens, or for prompts");
  command.value(
      "--against", &options->against, "PROFILE.json",
      "Another runtime's profile of the same model, for parity in operators, launches and time");
  command.value("--previous", &options->previous, "FILE",
                "Earlier scorecards (--json) or records (--record) to look for regressions\n"
                "against; the best of all counts; may come again");
  add_record_option(&command, &options->record);
  command
      .value("--peak-gflops", &options->gflops, "N", "The device's peak, in place of what is known")
      .in_range(1e-3, 1e9);
  command
      .value("--peak-gb-s", &options->gb_per_s, "N",
             "The device's memory bandwidth, in place of what is known")
      .in_range(1e-3, 1e9);
  command.flag("--measure-roofline", &options->measure_again,
               "Measures this machine again, whatever the state directory keeps of it");
  command.flag("--json", &options->json, "Print JSON instead of Markdown");
  add_compile_options(&command, &options->farm, &options->budget);
}

}  // namespace clients
