#include "tests/bench/llm/llm_runs.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"
#include "common/records/record.h"
#include "common/runtime/device/devices.h"

namespace bench {
namespace {

using clients::json_of;
using clients::run_path;
using common::cat;
using common::Status;

constexpr int kCommandMs = 5'000;

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

}  // namespace bench
