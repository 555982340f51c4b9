#include "tests/bench/llm/llm_runs.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "common/records/record.h"
#include "common/runtime/device/devices.h"

namespace bench {
namespace {

using common::cat;
using common::Result;
using common::Status;
using Json = nlohmann::ordered_json;

constexpr int kCommandMs = 5'000;
constexpr const char* kEnd = ".jsonl";

// The first line of what a command prints; empty where it cannot.
std::string first_line(const std::vector<std::string>& command) {
  auto output = common::run_command(command, kCommandMs);
  if (!output.ok() || output->status.code != 0) return "";
  return output->output.substr(0, output->output.find('\n'));
}

std::string time_text(const char* format) {
  std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace

LlmRun begin_run(const std::string& mode, const std::string& device) {
  char number[8];
  std::snprintf(number, sizeof number, "%04x", static_cast<unsigned>(::getpid()) & 0xffffU);
  LlmRun run;
  run.id = cat(time_text("%Y%m%d-%H%M%S"), "-", number);
  run.at = time_text("%Y-%m-%dT%H:%M:%SZ");
  run.commit = first_line({"git", "rev-parse", "HEAD"});
  run.branch = first_line({"git", "rev-parse", "--abbrev-ref", "HEAD"});
  run.machine = common::machine_name();
  run.mode = mode;
  run.device = device;
  if (auto found = common::find_device(device); found.ok()) run.device = found->target.name;
  if (device != "cpu") {
    run.driver = first_line({"nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"});
    run.cuda = first_line({"nvcc", "--version"});
  }
  return run;
}

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

Status write_run(const std::string& folder, const LlmRun& run) {
  LFARM_RETURN_IF_ERROR(common::make_directories(folder));
  std::string text = json_of(run) + "\n";
  for (const LlmRow& row : run.rows) text += json_of(row) + "\n";
  return common::write_file_atomic(run_path(folder, run.id), common::as_bytes(text));
}

Status append_row(const std::string& folder, const std::string& id, const LlmRow& row) {
  std::ofstream file(run_path(folder, id), std::ios::app);
  file << json_of(row) << '\n';
  file.close();
  if (!file) return common::unavailable(cat("cannot write ", run_path(folder, id)));
  return {};
}

Result<LlmRun> read_run(const std::string& path) {
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
    auto row = row_of(line);
    if (!row.ok())
      return common::invalid_input(cat(path, ": line ", number, ": ", row.error().message));
    run.rows.push_back(std::move(row).value());
  }
  return run;
}

Result<std::vector<LlmRun>> read_runs(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (entry.path().extension() == kEnd) paths.push_back(entry.path().string());
  }
  if (problem) return common::invalid_input(cat(folder, ": ", problem.message()));
  std::sort(paths.begin(), paths.end());  // their names begin with the time
  std::vector<LlmRun> runs;
  for (const std::string& path : paths) {
    LFARM_ASSIGN_OR_RETURN(LlmRun run, read_run(path));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace bench
