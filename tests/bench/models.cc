// models: lfarm's plans for whole models, and with --peers what PyTorch and ONNX Runtime take for
// the same files beside them: all sides in one run, round by round, with equally many threads.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "clients/cli/base/signals.h"
#include "clients/cli/compare/compared_sides.h"
#include "clients/score/roofline.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/records/record.h"
#include "common/runtime/device/cpu_device.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/peers_report.h"
#include "tests/bench/realtime.h"

namespace bench {
namespace {

using clients::MeasuredModel;
using clients::PeerSide;
using common::cat;
using common::Result;
using common::Status;

struct ModelsOptions {
  std::vector<std::string> models;
  bool peers = false;
  std::string python = "python3";
  std::vector<std::string> backends = {"eager", "inductor", "onnxruntime"};
  std::vector<std::string> dtypes;
  std::vector<int> threads = {1, 2};
  int rounds = 7;
  double peer_timeout_s = 1200;
  bool realtime = false;
  bool measure_roofline = false;
  bool json = false;
  std::string markdown;
  clients::FarmOptions farm;
  clients::BudgetOptions budget;
};

void say(const std::string& line) { std::fprintf(stderr, "lfarm-bench: %s\n", line.c_str()); }

// ---- A row -------------------------------------------------------------------------------------

// All sides run ahead of the machine's other work until this goes.
Result<std::vector<RealTime>> begin_realtime(const std::vector<PeerSide>& peers) {
  std::vector<RealTime> urgent;
  auto begin = [&](pid_t process) -> Status {
    LFARM_ASSIGN_OR_RETURN(RealTime turn, RealTime::begin(process));
    urgent.push_back(std::move(turn));
    return {};
  };
  LFARM_RETURN_IF_ERROR(begin(::getpid()));
  for (const PeerSide& peer : peers) {
    if (peer.process) LFARM_RETURN_IF_ERROR(begin(peer.process->pid()));
  }
  return urgent;
}

Result<std::vector<PeerSide>> start_peers(const ModelsOptions& options, const MeasuredModel& model,
                                          int threads) {
  std::vector<PeerSide> peers;
  if (!options.peers) return peers;
  clients::PeerSetup setup{clients::command_words(options.python), threads, options.peer_timeout_s};
  for (const std::string& backend : options.backends) {
    LFARM_RETURN_IF_ERROR(clients::check_stop());
    say(cat(model.name, ", ", threads, threads == 1 ? " thread: " : " threads: ", backend));
    peers.push_back(clients::start_peer(setup, backend));
    clients::load_peer(model, &peers.back());
  }
  return peers;
}

Result<ModelRow> measure_row(const ModelsOptions& options, const MeasuredModel& model,
                             const Result<clients::PulledPlan>& plan, int threads,
                             SetupLines* setup) {
  ModelRow row{model.name, model.dtype, threads, {}, {}, ""};
  LFARM_ASSIGN_OR_RETURN(
      clients::Roofline roofline,
      clients::roofline_of_processor(options.farm.state, threads, options.measure_roofline));
  auto add_setup = [setup](const std::string& line) {
    if (!common::contains(*setup, line)) setup->push_back(line);
  };
  add_setup(clients::roofline_text(roofline));
  LFARM_ASSIGN_OR_RETURN(std::vector<PeerSide> peers, start_peers(options, model, threads));
  for (const PeerSide& peer : peers) {
    if (peer.facts.torch.empty()) continue;
    add_setup(cat(peer.result.name, ": ", clients::facts_text(peer.facts)));
  }
  auto expected = clients::expected_outputs(model, peers);
  clients::check_peers(model, expected, &peers);
  clients::OwnSide own = clients::open_own(model, plan, threads, expected);
  std::vector<RealTime> urgent;
  if (options.realtime) {
    LFARM_ASSIGN_OR_RETURN(urgent, begin_realtime(peers));
  }
  LFARM_ASSIGN_OR_RETURN(
      row.bound, clients::measure_rounds(model, roofline, options.rounds, threads, &own, &peers));
  row.problem = std::move(own.problem);
  row.sides.push_back(std::move(own.result));
  for (PeerSide& peer : peers) row.sides.push_back(std::move(peer.result));
  return row;
}

// ---- The run -----------------------------------------------------------------------------------

// Folders of models stand for the models in them.
std::vector<std::string> model_paths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& path : given) {
    std::error_code ignored;
    bool is_group =
        std::filesystem::is_directory(path, ignored) && !common::file_exists(path + "/model.pt2");
    if (!is_group) {
      paths.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
      if (common::file_exists(entry.path().string() + "/model.pt2")) {
        inside.push_back(entry.path().string());
      }
    }
    std::sort(inside.begin(), inside.end());
    paths.insert(paths.end(), inside.begin(), inside.end());
  }
  return paths;
}

struct Report {
  std::vector<ModelRow> rows;
  SetupLines setup;
  int unreadable = 0;
};

Status measure_model(const ModelsOptions& options, const std::string& path, Report* report) {
  auto model = clients::open_model(path);
  if (!model.ok()) {
    say(cat(path, ": ", model.error().message));
    ++report->unreadable;
    return {};
  }
  const std::vector<std::string>& dtypes = options.dtypes;
  if (!dtypes.empty() && !common::contains(dtypes, model->dtype)) {
    return {};
  }
  say(cat(model->name, ": lfarm's plan"));
  auto plan = clients::plan_for(*model, options.farm, options.budget);
  for (int threads : options.threads) {
    LFARM_RETURN_IF_ERROR(clients::check_stop());
    LFARM_ASSIGN_OR_RETURN(ModelRow row,
                           measure_row(options, *model, plan, threads, &report->setup));
    if (options.json) {
      std::printf("%s\n", json_of(row).c_str());
      std::fflush(stdout);
    }
    report->rows.push_back(std::move(row));
  }
  return {};
}

int finish(const ModelsOptions& options, const Report& report) {
  if (options.json) {
    for (const Summary& one : summaries_of(report.rows)) std::printf("%s\n", json_of(one).c_str());
    nlohmann::ordered_json setup{{"bench", "models"}, {"setup", report.setup}};
    std::printf("%s\n", setup.dump().c_str());
  } else {
    for (const std::string& line : report.setup) std::printf("%s\n", line.c_str());
    std::fputs(table_of(report.rows).c_str(), stdout);
  }
  if (!options.markdown.empty()) {
    std::string text = markdown_of(report.rows, report.setup);
    Status written = common::write_file_atomic(options.markdown, common::as_bytes(text));
    if (!written.ok()) {
      say(written.error().message);
      return 1;
    }
  }
  bool failed = std::any_of(report.rows.begin(), report.rows.end(),
                            [](const ModelRow& row) { return !row.problem.empty(); });
  return failed || report.unreadable > 0 ? 1 : 0;
}

int run(const ModelsOptions& options) {
  common::log_init("lfarm-bench", common::LogLevel::kWarning);  // to standard error
  clients::watch_signals();
  Report report;
  report.setup.push_back(cat(common::machine_name(), ", ", common::host_cpu_target().name, ", ",
                             options.rounds, " rounds"));
  for (const std::string& path : model_paths(options.models)) {
    Status measured = measure_model(options, path, &report);
    if (!measured.ok()) {  // asked to stop: what there is, is still worth having
      say(measured.error().message);
      finish(options, report);
      return 1;
    }
  }
  if (report.rows.empty()) {
    say("no model measured");
    return report.unreadable > 0 ? 1 : 2;
  }
  return finish(options, report);
}

}  // namespace

int run_models(const std::vector<std::string>& arguments) {
  ModelsOptions options;
  options.farm.device = "cpu";
  options.farm.state = common::default_state_directory();
  CLI::App app(
      "Times of lfarm's plans for models, beside PyTorch's and ONNX Runtime's for the same files.\n"
      "docs/measuring.md has the method; peers/make_models.py exports models.",
      "lfarm-bench models");
  app.add_option("model", options.models,
                 "cases (a folder with model.pt2 and inputs/), folders of cases, or .pt2 files")
      ->required();
  app.add_flag("--peers", options.peers, "measure the peers too");
  app.add_option("--python", options.python,
                 "the command that is their Python, such as 'chroot /srv/sid python3'; it need not "
                 "see this machine's files")
      ->capture_default_str();
  app.add_option("--peer", options.backends, "which peers")
      ->check(CLI::IsMember({"eager", "inductor", "onnxruntime"}))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  app.add_option("--dtype", options.dtypes, "only models of these types")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "f64"}))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--threads", options.threads, "of every side, one row each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "in which all sides take turns")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--peer-timeout", options.peer_timeout_s, "seconds a peer may take to compile")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--state", options.farm.state, "the state directory, which keeps plans")
      ->capture_default_str();
  app.add_option("--budget", options.budget.candidates, "candidates of a search for a new plan");
  app.add_option("--time", options.budget.seconds, "seconds of a search for a new plan");
  app.add_flag("--realtime", options.realtime,
               "all sides run ahead of the machine's other work (as root)");
  app.add_flag("--measure-roofline", options.measure_roofline,
               "measures this machine again, whatever the state directory keeps of it");
  app.add_flag("--json", options.json, "one JSON object a line instead of a table");
  app.add_option("--markdown", options.markdown, "a file for the report");
  return run_guarded("models", app, arguments, [&] { return run(options); });
}

}  // namespace bench
