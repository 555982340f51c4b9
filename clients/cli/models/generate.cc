// lfarm generate: tokens from a language model, by a plan for prompts and one for single tokens.
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/base/signals.h"
#include "clients/cli/models/planned_programs.h"
#include "clients/cli/models/prompt_file.h"
#include "clients/generate/generator.h"
#include "common/base/cat.h"
#include "common/base/clock.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Sequences = std::vector<std::vector<int64_t>>;

struct GenerateCommand {
  FarmOptions farm;
  BudgetOptions budget;
  std::string model, prompt;
  std::vector<std::string> stop;
  GenerateOptions run;
  int64_t repeat = 1;
  int64_t threads = 0;  // 0: all
  bool json = false;
};

// Of this process, in MiB.
double peak_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Tokens as they come: those of one sequence on a line, else each sequence on one at the end.
class Printer {
 public:
  Printer(bool json, size_t batch) : json_(json), streams_(!json && batch == 1) {}

  // What is repeated is measured, and not printed again.
  void begin_again() { shows_tokens_ = false; }

  bool operator()(size_t sequence, int64_t step, int64_t token) {
    if (!shows_tokens_) return stop_signal() == 0;
    if (streams_) std::printf("%s%s", step == 0 ? "" : " ", cat(token).c_str());
    has_begun_ = true;
    if (json_) {
      nlohmann::ordered_json line{{"sequence", sequence}, {"step", step}, {"token", token}};
      std::printf("%s\n", line.dump().c_str());
    }
    std::fflush(stdout);
    return stop_signal() == 0;
  }

  void end_line() const {
    if (streams_ && shows_tokens_ && has_begun_) std::printf("\n");
    std::fflush(stdout);
  }

  void end(const Generated& made, double plan_s) const {
    if (!json_ && !streams_ && shows_tokens_) {
      for (const auto& tokens : made.sequences) {
        for (size_t k = 0; k < tokens.size(); ++k) {
          std::printf("%s%s", k == 0 ? "" : " ", cat(tokens[k]).c_str());
        }
        std::printf("\n");
      }
    }
    double rest = static_cast<double>(made.rest_ns) / 1e6;
    double each = made.steps > 1 ? rest / static_cast<double>(made.steps - 1) : 0;
    double per_second = each > 0 ? 1e3 / each * static_cast<double>(made.sequences.size()) : 0;
    if (json_) {
      nlohmann::ordered_json line{
          {"summary", true},      {"prompt_tokens", made.prompt_tokens},
          {"tokens", made.steps}, {"ttft_ms", static_cast<double>(made.first_ns) / 1e6},
          {"tpot_ms", each},      {"tokens_per_s", per_second},
          {"plan_s", plan_s},     {"peak_mb", peak_mb()}};
      std::printf("%s\n", line.dump().c_str());
      return;
    }
    std::fprintf(stderr, "lfarm: first token after %s",
                 duration_text(static_cast<double>(made.first_ns)).c_str());
    if (made.steps > 1) {
      std::fprintf(stderr, ", then %s each (%.4g tokens/s)", duration_text(each * 1e6).c_str(),
                   per_second);
    }
    std::fprintf(stderr, "\n");
  }

 private:
  bool json_;
  bool streams_;
  bool shows_tokens_ = true;
  bool has_begun_ = false;
};

Status generate(GenerateCommand options, Progress* progress) {
  for (const std::string& id : options.stop) {
    auto ids = parse_prompts(id);
    if (!ids.ok()) return common::invalid_input(cat("--stop: ", ids.error().message));
    options.run.stop.insert(options.run.stop.end(), (*ids)[0].begin(), (*ids)[0].end());
  }
  LFARM_ASSIGN_OR_RETURN(Sequences prompts, read_prompts(options.prompt));
  int threads = options.threads > 0 ? static_cast<int>(options.threads) : default_threads();
  PlannedPrograms planned(options.farm, options.budget, progress);
  const int64_t start_ns = common::SteadyClock().now_ns();
  auto check = [&](const Roles& roles) { return check_run(roles, prompts, options.run); };
  LFARM_ASSIGN_OR_RETURN(std::vector<GeneratorProgram> programs,
                         planned.load(options.model, threads, check));
  const double plan_s = static_cast<double>(common::SteadyClock().now_ns() - start_ns) / 1e9;
  Generator generator(std::move(programs));
  Printer printer(options.json, prompts.size());
  for (int64_t k = 0; k < options.repeat && stop_signal() == 0; ++k) {
    auto made = generator.run(prompts, options.run, std::ref(printer));
    printer.end_line();
    if (!made.ok()) return made.error();
    printer.end(*made, plan_s);
    printer.begin_again();
  }
  return {};
}

int run(const GenerateCommand& options) {
  Progress progress(false);
  Status status = generate(options, &progress);
  progress.clear();
  return exit_code_of(status);
}

}  // namespace

void declare_generate(CommandLine* line) {
  auto options = std::make_shared<GenerateCommand>();
  Command command = line->add(
      "generate",
      "Generates tokens with a language model: prompts in few wide calls, then a call a token.\n"
      "The model takes token ids [batch, width], positions where it wants them, and returns "
      "logits;\n"
      "it keeps keys and values as buffers, or is given all tokens at each call. A model exported\n"
      "with a width that may change has a plan for prompts and one for single tokens.\n"
      "Ids in, ids out: a tokenizer is the caller's.",
      [options] { return run(*options); });
  command
      .value("model", &options->model, "MODEL.pt2|DIR",
             "An exported program, or a folder with model.pt2, or with prompt.pt2 and decode.pt2")
      .required();
  command
      .value("--prompt-ids", &options->prompt, "FILE",
             "Token ids: NumPy, JSON, or text with a sequence on each line; -: standard input")
      .required();
  command.value("--tokens", &options->run.tokens, "N", "New tokens at most, for each sequence")
      .in_range(int64_t{1}, int64_t{1} << 40)
      .shows_default();
  command
      .value("--temperature", &options->run.sampling.temperature, "T",
             "What logits are divided by before a token is drawn; 0: the greatest is taken")
      .shows_default();
  command
      .value("--top-k", &options->run.sampling.top_k, "K",
             "Draw among the K most probable tokens; 0: among all")
      .shows_default();
  command
      .value("--top-p", &options->run.sampling.top_p, "P",
             "Draw among the most probable tokens whose probabilities sum to P")
      .shows_default();
  command.value("--seed", &options->run.sampling.seed, "K", "Seed of the draws (default: 0)");
  command.value("--stop", &options->stop, "ID", "A sequence ends with this token; may be repeated");
  command
      .value("--chunk", &options->run.chunk, "N",
             "Tokens of a prompt that one call takes at most; 0: as many as the model takes")
      .in_range(int64_t{0}, int64_t{1} << 40);
  command
      .value("--threads", &options->threads, "N",
             "Of the processor, that share a call (default: all)")
      .in_range(int64_t{1}, int64_t{1024});
  command
      .value("--repeat", &options->repeat, "N",
             "Generate N times for the times' sake; the tokens are printed once")
      .in_range(int64_t{1}, int64_t{1} << 20)
      .shows_default();
  command.flag(
      "--first-plan", &options->budget.takes_first,
      "Begin with the first plan that is right, with single tokens while the plan for prompts is\n"
      "made; a farm that runs ('lfarm up') searches on, and later runs have its best");
  command.flag("--json", &options->json, "Print a JSON line a token, and one with the times");
  add_compile_options(&command, &options->farm, &options->budget, "--search-seed");
}

}  // namespace clients
