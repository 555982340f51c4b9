// models: lfarm's plans for whole models, and with --peers what PyTorch and ONNX Runtime take for
// the same files beside them: all sides in one run, round by round, with equally many threads.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "clients/cli/base/signals.h"
#include "clients/score/roofline.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/records/record.h"
#include "common/runtime/device/cpu_device.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/measured_model.h"
#include "tests/bench/peers/script.h"
#include "tests/bench/peers_report.h"
#include "tests/bench/realtime.h"

namespace bench {
namespace {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;

constexpr double kTurnUs = 200'000;  // of one side, in one round
constexpr int kTurnCallsMin = 3;
constexpr int kTurnCallsMax = 100;

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

// ---- Sides -------------------------------------------------------------------------------------

// One peer while a row is measured.
struct PeerSide {
  SideResult result;
  PeerFacts facts;
  PeerRates rates;                     // of eager, where it runs
  std::optional<PeerProcess> process;  // empty: it failed, and the result says why
  std::vector<HostTensor> outputs;

  void fail(const std::string& why) {
    result.note = why;
    result.us.clear();
    process.reset();
  }
};

PeerSide start_peer(const ModelsOptions& options, const std::string& backend,
                    const MeasuredModel& model, int threads) {
  PeerSide side;
  side.result.name = backend;
  PeerOptions peer{command_words(options.python), kPeerScript, backend, threads, {}};
  peer.deadlines.load_ms = static_cast<int64_t>(options.peer_timeout_s * 1e3);
  auto started = PeerProcess::start(peer);
  if (!started.ok()) {
    side.fail(started.error().message);
    return side;
  }
  side.process.emplace(std::move(started).value());
  side.facts = side.process->facts();
  std::string refusal =
      refusal_of(side.facts, common::host_cpu_target().name.find("avx") != std::string::npos);
  if (!refusal.empty()) {
    side.result.competes = false;
    side.result.note = cat(backend, ": ", refusal);
  }
  auto archive = common::MappedFile::open(model.file);
  if (!archive.ok()) {
    side.fail(archive.error().message);
    return side;
  }
  auto loaded = side.process->load((*archive)->bytes(), arrays_of(model));
  if (!loaded.ok()) {
    side.fail(loaded.error().message);
    return side;
  }
  side.result.settings = loaded->settings;
  auto outputs = outputs_of(model, *loaded);
  if (outputs.ok()) {
    side.outputs = std::move(outputs).value();
  } else {
    side.fail(cat(backend, ": ", outputs.error().message));
  }
  return side;
}

// What PyTorch gave: of this run, else of the case's folder.
Result<std::vector<HostTensor>> expected_outputs(const MeasuredModel& model,
                                                 const std::vector<PeerSide>& peers) {
  for (const PeerSide& peer : peers) {
    if (peer.result.name == "eager" && peer.process) return peer.outputs;
  }
  return stored_outputs(model);
}

// ---- A row -------------------------------------------------------------------------------------

int calls_of(const SideResult& side) {
  if (side.us.empty()) return kTurnCallsMin;
  double last = std::max(side.us.back(), 1.0);
  return std::clamp(static_cast<int>(kTurnUs / last), kTurnCallsMin, kTurnCallsMax);
}

// lfarm's side of a row; without a plan, or once it failed, `side` is empty.
struct OwnSide {
  SideResult result;
  std::optional<LfarmSide> side;
  std::string problem;

  void fail(const std::string& why) {
    problem = why;
    result.us.clear();
    side.reset();
  }
  void turn() {
    auto us = side->run(calls_of(result));
    if (!us.ok()) return fail(us.error().message);
    result.us.insert(result.us.end(), us->begin(), us->end());
  }
};

void turn_of(PeerSide& peer) {
  auto us = peer.process->run(calls_of(peer.result));
  if (!us.ok()) return peer.fail(us.error().message);
  peer.result.us.insert(peer.result.us.end(), us->begin(), us->end());
}

// All sides take turns, and another one begins each round, after `before_round`.
Status measure_rounds(const ModelsOptions& options, const std::function<void()>& before_round,
                      OwnSide* own, std::vector<PeerSide>* peers) {
  std::vector<RealTime> urgent;
  auto begin = [&](pid_t process) -> Status {
    LFARM_ASSIGN_OR_RETURN(RealTime turn, RealTime::begin(process));
    urgent.push_back(std::move(turn));
    return {};
  };
  if (options.realtime) {
    LFARM_RETURN_IF_ERROR(begin(::getpid()));
    for (PeerSide& peer : *peers) {
      if (peer.process) LFARM_RETURN_IF_ERROR(begin(peer.process->pid()));
    }
  }
  for (PeerSide& peer : *peers) {
    if (!peer.process || peer.result.name != "eager") continue;
    auto rates = peer.process->rates();
    if (rates.ok()) {
      peer.rates = *rates;
    } else {
      peer.fail(rates.error().message);
    }
  }
  size_t sides = peers->size() + 1;
  for (size_t round = 0; round < static_cast<size_t>(options.rounds); ++round) {
    before_round();
    for (size_t turn = 0; turn < sides; ++turn) {
      LFARM_RETURN_IF_ERROR(clients::check_stop());
      size_t k = (round + turn) % sides;
      if (k == 0) {
        if (own->side) own->turn();
      } else if ((*peers)[k - 1].process) {
        turn_of((*peers)[k - 1]);
      }
    }
  }
  return {};
}

// lfarm's side, its first outputs compared.
OwnSide open_own(const MeasuredModel& model, const Result<clients::PulledPlan>& plan, int threads,
                 const Result<std::vector<HostTensor>>& expected) {
  OwnSide own;
  own.result.name = kLfarmSide;
  if (!plan.ok()) {
    own.fail(plan.error().message);
    return own;
  }
  auto side = LfarmSide::open(model, *plan, threads);
  if (!side.ok()) {
    own.fail(side.error().message);
    return own;
  }
  own.side.emplace(std::move(side).value());
  auto outputs = own.side->first_call();
  if (!outputs.ok()) {
    own.fail(outputs.error().message);
  } else if (!expected.ok()) {
    own.result.note = cat("lfarm: not verified: ", expected.error().message);
  } else if (Status same = compare(model, *outputs, *expected); !same.ok()) {
    own.problem = cat("lfarm's outputs are not PyTorch's: ", same.error().message);
  }
  return own;
}

bool exceeds_caches(const MeasuredModel& model, const clients::Roofline& roofline) {
  return !roofline.reads.empty() && model.work.bytes >= roofline.reads.back().bytes;
}

// `reads`: of memory, measured in the row's rounds; without any, as the roofline has them.
RowBound bound_of(const MeasuredModel& model, const clients::Roofline& roofline,
                  std::vector<double> reads, const std::vector<PeerSide>& peers) {
  RowBound bound{model.work.operations, model.work.bytes, roofline.operations_per_s,
                 clients::read_bandwidth(roofline, model.work.bytes)};
  if (!reads.empty()) {
    std::sort(reads.begin(), reads.end());
    bound.bytes_per_s = reads[reads.size() / 2];
  }
  // Products of 16-bit numbers may have units of their own, which a library may drive faster.
  if (model.dtype != "bf16") return bound;
  bound.operations_per_s = std::max(bound.operations_per_s, roofline.half_operations_per_s);
  for (const PeerSide& peer : peers) {
    if (!peer.result.competes) continue;
    bound.operations_per_s = std::max(bound.operations_per_s, peer.rates.bf16_gemm_gflops * 1e9);
  }
  return bound;
}

Result<ModelRow> measure_row(const ModelsOptions& options, const MeasuredModel& model,
                             const Result<clients::PulledPlan>& plan, int threads,
                             SetupLines* setup) {
  ModelRow row{model.name, model.dtype, threads, {}, {}, ""};
  LFARM_ASSIGN_OR_RETURN(
      clients::Roofline roofline,
      clients::roofline_of_processor(options.farm.state, threads, options.measure_roofline));
  auto add_setup = [setup](const std::string& line) {
    if (std::find(setup->begin(), setup->end(), line) == setup->end()) setup->push_back(line);
  };
  char text[160];
  std::snprintf(text, sizeof text, "%s: %.0f GFLOP/s float32, reads memory at %.1f GB/s",
                roofline.device.c_str(), roofline.operations_per_s / 1e9,
                roofline.reads.empty() ? 0 : roofline.reads.back().bytes_per_s / 1e9);
  add_setup(text);
  std::vector<PeerSide> peers;
  if (options.peers) {
    for (const std::string& backend : options.backends) {
      LFARM_RETURN_IF_ERROR(clients::check_stop());
      say(cat(model.name, ", ", threads, threads == 1 ? " thread: " : " threads: ", backend));
      peers.push_back(start_peer(options, backend, model, threads));
      if (peers.back().facts.torch.empty()) continue;
      add_setup(cat(backend, ": ", facts_text(peers.back().facts)));
    }
  }
  auto expected = expected_outputs(model, peers);
  for (PeerSide& peer : peers) {
    if (!peer.process || !expected.ok()) continue;
    if (Status same = compare(model, peer.outputs, *expected); !same.ok()) {
      peer.result.competes = false;
      peer.result.note =
          cat(peer.result.name, ": its outputs are not eager's: ", same.error().message);
    }
    peer.outputs.clear();
  }
  OwnSide own = open_own(model, plan, threads, expected);
  std::optional<clients::MemoryReads> memory;
  if (exceeds_caches(model, roofline)) memory.emplace(threads, model.work.bytes);
  std::vector<double> reads;
  auto read_memory = [&] {
    double rate = memory ? memory->bytes_per_s() : 0;
    if (rate > 0) reads.push_back(rate);
  };
  LFARM_RETURN_IF_ERROR(measure_rounds(options, read_memory, &own, &peers));
  row.bound = bound_of(model, roofline, std::move(reads), peers);
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
  auto model = open_model(path);
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
  auto plan = plan_for(*model, options.farm, options.budget);
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
