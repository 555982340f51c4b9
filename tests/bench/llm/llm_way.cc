#include "tests/bench/llm/llm_way.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "clients/peers/line_process.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "tests/bench/peers/script.h"

namespace bench {
namespace {

using clients::LineProcess;
using clients::quoted;
using common::cat;
using common::Error;
using common::Result;
using common::Status;
using Json = nlohmann::json;

constexpr int64_t kFarmStartsMs = 60'000;

// What a line of a process says; its error where it says one.
Result<Json> read_json(LineProcess& process) {
  LFARM_ASSIGN_OR_RETURN(std::string text, process.line());
  Json said = Json::parse(text, nullptr, false);
  if (!said.is_object()) return process.nonsense(text);
  for (const char* word : {"missing", "error"}) {
    auto found = said.find(word);
    if (found != said.end() && found->is_string()) {
      return common::unsupported(quoted(found->get<std::string>()));
    }
  }
  return said;
}

// One model, one way.
class Way {
 public:
  Way(const LlmOptions& options, std::string model, std::string way, int64_t budget,
      std::string work)
      : options_(options),
        model_(std::move(model)),
        way_(std::move(way)),
        budget_(budget),
        work_(std::move(work)) {}

  std::vector<LlmRow> run() {
    Status done = way_ == kLlmWays[3] ? alone() : in_python();
    if (!done.ok()) {
      for (size_t k = rows_.size(); k < options_.prompts.size(); ++k) {
        LlmRow row = new_row(options_.prompts[k]);
        row.error = done.error().message;
        rows_.push_back(std::move(row));
      }
    }
    return std::move(rows_);
  }

 private:
  LlmRow new_row(int64_t prompt) const {
    LlmRow row;
    row.model = model_;
    row.way = way_;
    row.shape = shape_;
    row.prompt_tokens = prompt;
    row.budget = budget_;
    return row;
  }

  // The session of the peer that asks lfarm. Where --session names no farm, one is started that
  // lives as long as this way, so that no plan is there before.
  Result<Json> session_of(std::optional<LineProcess>& farm) const {
    Json session = Json::parse(options_.session.empty() ? "{}" : options_.session, nullptr, false);
    if (!session.is_object()) return common::invalid_input("--session is no JSON object");
    if (session.contains("farm") || session.contains("state")) return session;
    LFARM_ASSIGN_OR_RETURN(
        LineProcess started,
        LineProcess::start("lfarm up", {options_.lfarm, "up", "--state", cat(work_, "/farm"),
                                        "--device", options_.device}));
    farm.emplace(std::move(started));
    farm->allow(kFarmStartsMs);
    LFARM_ASSIGN_OR_RETURN(std::string said, farm->line());
    constexpr std::string_view kBegins = "farm at ";
    if (said.substr(0, kBegins.size()) != kBegins) return farm->nonsense(said);
    session["farm"] = said.substr(kBegins.size());
    return session;
  }

  Result<LineProcess> start_peer(const char* way, Json session) const {
    if (budget_ > 0) session["budget_candidates"] = budget_;
    // Calls before a plan is there would be the interpreter's.
    if (!session.contains("deadline")) session["deadline"] = options_.timeout_s;
    Json spec{{"model", model_},
              {"way", way},
              {"size", options_.size},
              {"dtype", options_.dtype},
              {"device", options_.device},
              {"threads", options_.threads},
              {"prompts", options_.prompts},
              {"tokens", options_.tokens},
              {"samples", options_.samples},
              {"options", session}};
    std::vector<std::string> command = options_.python;
    command.insert(command.end(), {"-c", kLlmScript, spec.dump()});
    return LineProcess::start(way, std::move(command));
  }

  Status in_python() {
    const char* peer_way = way_ == kLlmWays[0]   ? "eager"
                           : way_ == kLlmWays[1] ? "inductor"
                                                 : "lfarm";
    std::optional<LineProcess> farm;
    Json session = Json::object();
    if (way_ == kLlmWays[2]) {
      LFARM_ASSIGN_OR_RETURN(session, session_of(farm));
    }
    LFARM_ASSIGN_OR_RETURN(LineProcess peer, start_peer(peer_way, std::move(session)));
    peer.allow(options_.timeout_s * 1000);
    LFARM_ASSIGN_OR_RETURN(Json ready, read_json(peer));
    shape_ = ready.value("shape", "");
    for (int64_t prompt : options_.prompts) {
      LFARM_ASSIGN_OR_RETURN(Json said, read_json(peer));
      LlmRow row = new_row(prompt);
      row.ttft_ms = said.value("ttft_ms", std::vector<double>());
      row.tpot_ms = said.value("tpot_ms", std::vector<double>());
      row.plan_s = said.value("plan_s", 0.0);
      row.peak_mb = said.value("peak_mb", 0.0);
      rows_.push_back(std::move(row));
    }
    return {};
  }

  // The exported programs come from the peer; lfarm itself needs no Python.
  Status alone() {
    LFARM_ASSIGN_OR_RETURN(LineProcess peer, start_peer("export", Json::object()));
    peer.allow(options_.timeout_s * 1000);
    LFARM_ASSIGN_OR_RETURN(Json ready, read_json(peer));
    shape_ = ready.value("shape", "");
    int64_t words = 2;
    for (const char* name : {"prompt", "decode"}) {
      LFARM_ASSIGN_OR_RETURN(Json said, read_json(peer));
      words = said.value("words", words);
      LFARM_RETURN_IF_ERROR(
          peer.save(said.value("bytes", size_t{0}), cat(work_, "/", name, ".pt2")));
    }
    for (int64_t prompt : options_.prompts) {
      LFARM_ASSIGN_OR_RETURN(LlmRow row, generate(prompt, words));
      rows_.push_back(std::move(row));
    }
    return {};
  }

  Result<LlmRow> generate(int64_t prompt, int64_t words) {
    const std::string ids = cat(work_, "/ids_", prompt, ".txt");
    std::ofstream file(ids);
    for (int64_t k = 0; k < prompt; ++k) file << (k * 7919 + 1) % words << ' ';
    file.close();
    if (!file) return common::unavailable(cat("cannot write ", ids));
    std::vector<std::string> command{options_.lfarm,
                                     "generate",
                                     work_,
                                     "--prompt-ids",
                                     ids,
                                     "--tokens",
                                     cat(options_.tokens),
                                     "--json",
                                     "--repeat",
                                     cat(options_.samples + 1),
                                     "--state",
                                     cat(work_, "/state"),
                                     "--threads",
                                     cat(options_.threads),
                                     "--device",
                                     options_.device};
    if (budget_ > 0) command.insert(command.end(), {"--budget", cat(budget_)});
    LFARM_ASSIGN_OR_RETURN(LineProcess process, LineProcess::start("lfarm", std::move(command)));
    process.allow(options_.timeout_s * 1000);
    LlmRow row = new_row(prompt);
    for (int64_t run = 0; run <= options_.samples;) {
      LFARM_ASSIGN_OR_RETURN(Json said, read_json(process));
      if (!said.value("summary", false)) continue;
      // The first run warms up.
      if (run++ == 0) continue;
      row.ttft_ms.push_back(said.value("ttft_ms", 0.0));
      row.tpot_ms.push_back(said.value("tpot_ms", 0.0));
      row.plan_s = said.value("plan_s", 0.0);
      row.peak_mb = said.value("peak_mb", 0.0);
    }
    return row;
  }

  const LlmOptions& options_;
  const std::string model_, way_;
  const int64_t budget_;
  const std::string work_;
  std::string shape_;
  std::vector<LlmRow> rows_;
};

}  // namespace

std::vector<LlmRow> measure_way(const LlmOptions& options, const std::string& model,
                                const std::string& way, int64_t budget, const std::string& work) {
  return Way(options, model, way, budget, work).run();
}

}  // namespace bench
