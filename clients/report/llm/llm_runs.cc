#include "clients/report/llm/llm_runs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

constexpr const char* kEnd = ".jsonl";

}  // namespace

std::string json_of(const LlmRun& run) {
  Json line{{"bench", "llm"},       {"run", run.id},        {"at", run.at},
            {"commit", run.commit}, {"branch", run.branch}, {"machine", run.machine},
            {"device", run.device}, {"driver", run.driver}, {"cuda", run.cuda},
            {"mode", run.mode}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string run_path(const std::string& folder, const std::string& id) {
  return cat(folder, "/", id, kEnd);
}

Result<LlmRun> read_llm_run(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path));
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const auto head = Json::parse(line, nullptr, false);
  if (!head.is_object() || !head.contains("run")) {
    return common::invalid_input(cat(path, ": line 1 names no run"));
  }
  LlmRun run;
  for (auto [word, field] : {std::pair{"run", &run.id},
                             {"at", &run.at},
                             {"commit", &run.commit},
                             {"branch", &run.branch},
                             {"machine", &run.machine},
                             {"device", &run.device},
                             {"driver", &run.driver},
                             {"cuda", &run.cuda},
                             {"mode", &run.mode}}) {
    if (head.contains(word) && head[word].is_string()) *field = head[word].get<std::string>();
  }
  for (size_t number = 2; std::getline(lines, line); ++number) {
    const bool is_cut = lines.eof();
    auto row = row_of(line);
    if (!row.ok() && is_cut) break;
    if (!row.ok())
      return common::invalid_input(cat(path, ": line ", number, ": ", row.error().message));
    run.rows.push_back(std::move(row).value());
  }
  return run;
}

Result<std::vector<LlmRun>> read_llm_runs(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() == kEnd) paths.push_back(entry.path().string());
  }
  if (problem) return common::invalid_input(cat(folder, ": ", problem.message()));
  std::sort(paths.begin(), paths.end());  // their names begin with the time
  std::vector<LlmRun> runs;
  for (const std::string& path : paths) {
    LFARM_ASSIGN_OR_RETURN(LlmRun run, read_llm_run(path));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace clients
