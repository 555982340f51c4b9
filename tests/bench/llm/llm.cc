// llm: language models of random weights by eager PyTorch, torch.compile, torch.compile with lfarm,
// and lfarm alone: the time to a plan, to the first token and for each of the others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "clients/cli/base/signals.h"
#include "clients/peers/line_process.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "tests/bench/bench.h"
#include "tests/bench/farm/farm_under_load.h"
#include "tests/bench/llm/llm_runs.h"
#include "tests/bench/llm/llm_way.h"

namespace bench {
namespace {

using common::cat;
using common::Status;

struct LlmCommand {
  LlmOptions measured;
  std::string mode = "all", python = "python3";
  std::vector<std::string> models, ways, skip;
  std::vector<int64_t> budgets;
  double cooldown_s = 0;
  std::string out = "llm-runs", render;
  bool json = false;
};

void say(const std::string& line) { std::fprintf(stderr, "lfarm-bench: %s\n", line.c_str()); }

// What a mode means, as far as options did not say it.
void complete(LlmCommand* command, bool has_prompts) {
  if (command->models.empty()) {
    command->models.assign(std::begin(kLlmModels), std::end(kLlmModels) - 1);
    if (command->mode == "single") command->models.resize(1);
  }
  if (command->ways.empty()) command->ways.assign(std::begin(kLlmWays), std::end(kLlmWays));
  if (command->mode == "sweep") {
    command->ways = {kLlmWays[3]};
    if (command->budgets.empty()) command->budgets = {10, 100, 500};
  }
  if (command->mode == "quick") {
    command->measured.size = "reduced";
    command->measured.tokens = std::min<int64_t>(command->measured.tokens, 8);
    command->measured.samples = std::min<int64_t>(command->measured.samples, 3);
    if (!has_prompts) command->measured.prompts = {128};
  }
  if (command->budgets.empty()) command->budgets = {0};
  command->measured.python = clients::command_words(command->python);
  // Beside this program, where both were built.
  std::error_code ignored;
  auto here = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "lfarm";
  command->measured.lfarm = std::filesystem::exists(here, ignored) ? here.string() : "lfarm";
}

Status measure(const LlmCommand& command, LlmRun* run) {
  bool is_first = true;
  for (const std::string& model : command.models) {
    for (const std::string& way : command.ways) {
      if (common::contains(command.skip, model) || common::contains(command.skip, way)) continue;
      // Only lfarm searches.
      const bool searches = way == kLlmWays[2] || way == kLlmWays[3];
      for (int64_t budget : searches ? command.budgets : std::vector<int64_t>{0}) {
        LFARM_RETURN_IF_ERROR(clients::check_stop());
        if (!is_first && command.cooldown_s > 0) {
          std::this_thread::sleep_for(std::chrono::duration<double>(command.cooldown_s));
        }
        is_first = false;
        say(cat(model, ", ", way, budget > 0 ? cat(", ", budget, " candidates") : ""));
        LFARM_ASSIGN_OR_RETURN(auto work, common::ScratchDirectory::create("lfarm-llm"));
        for (LlmRow& row : measure_way(command.measured, model, way, budget, work.path())) {
          if (!row.error.empty()) say(cat(model, ", ", way, ": ", row.error));
          LFARM_RETURN_IF_ERROR(append_row(command.out, run->id, row));
          if (command.json) std::printf("%s\n", json_of(row).c_str());
          std::fflush(stdout);
          run->rows.push_back(std::move(row));
        }
      }
    }
  }
  return {};
}

int render(const LlmCommand& command) {
  auto run = clients::read_llm_run(std::filesystem::exists(command.render)
                                       ? command.render
                                       : clients::run_path(command.out, command.render));
  if (!run.ok()) {
    say(run.error().message);
    return 2;
  }
  if (command.json) {
    std::printf("%s\n", json_of(*run).c_str());
    for (const LlmRow& row : run->rows) std::printf("%s\n", json_of(row).c_str());
  } else {
    std::printf("%s", table_of(run->rows).c_str());
  }
  return 0;
}

int run(const LlmCommand& command) {
  common::log_init("lfarm-bench", common::LogLevel::kWarning);  // to standard error
  if (!command.render.empty()) return render(command);
  clients::watch_signals();
  LlmRun run = begin_run(command.mode, command.measured.device);
  Status done = write_run(command.out, run);
  if (done.ok()) {
    if (command.json) std::printf("%s\n", json_of(run).c_str());
    done = measure(command, &run);
  }
  if (!done.ok()) say(done.error().message);
  if (!command.json) std::printf("%s", table_of(run.rows).c_str());
  say(cat("kept as ", clients::run_path(command.out, run.id)));
  return done.ok() ? 0 : 1;
}

void declare_what(CLI::App& app, LlmCommand& command) {
  app.add_option("--mode", command.mode,
                 "single: the first model; all; sweep: lfarm alone after several budgets; quick: "
                 "reduced shapes, few tokens")
      ->check(CLI::IsMember({"single", "all", "sweep", "quick"}))
      ->capture_default_str();
  app.add_option("--model", command.models, "which models")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kLlmModels), std::end(kLlmModels))))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--way", command.ways, "which ways")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kLlmWays), std::end(kLlmWays))))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--skip", command.skip, "models and ways that are left out")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--budgets", command.budgets, "candidates of lfarm's searches")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--size", command.measured.size,
                 "full, reduced (an eighth of the width, few layers), or auto: full where memory "
                 "holds the weights")
      ->check(CLI::IsMember({"auto", "full", "reduced"}))
      ->capture_default_str();
  app.add_option("--dtype", command.measured.dtype, "of weights")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  app.add_option("--tokens", command.measured.tokens, "new tokens of a sample")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--samples", command.measured.samples, "after one that warms up")
      ->check(CLI::Range(int64_t{1}, int64_t{10'000}))
      ->capture_default_str();
}

void declare_how(CLI::App& app, LlmCommand& command) {
  app.add_option(
         "--python", command.python,
         "the command that is the peers' Python, such as 'chroot /srv/sid python3'; it need "
         "not see this machine's files")
      ->capture_default_str();
  app.add_option("--session", command.measured.session,
                 "what lfarm.Session is told there, as JSON: {\"farm\": \"tcp://host:7171\"} "
                 "(default: a farm that is started for it)");
  app.add_option("--device", command.measured.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", command.measured.threads, "of every way")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--timeout", command.measured.timeout_s,
                 "seconds that one way of a model may take")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--cooldown", command.cooldown_s, "seconds between two ways")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--out", command.out, "the folder that keeps runs")->capture_default_str();
  app.add_option("--render-only", command.render,
                 "prints a run that is kept, by its id or file, and measures nothing");
  app.add_flag("--json", command.json, "one JSON object a line instead of a table");
}

}  // namespace

int run_llm(const std::vector<std::string>& arguments) {
  LlmCommand command;
  CLI::App app(
      "Time to a plan, to the first token (TTFT) and for each of the others (TPOT) of language "
      "models.\ndocs/measuring.md has the method.",
      "lfarm-bench llm");
  declare_what(app, command);
  declare_how(app, command);
  const CLI::Option* prompts =
      app.add_option("--prompts", command.measured.prompts, "lengths of prompts, in tokens")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
          ->capture_default_str();
  return run_guarded("llm", app, arguments, [&] {
    complete(&command, prompts->count() > 0);
    return run(command);
  });
}

}  // namespace bench
