// Runs of `lfarm-bench llm`: what they measured, kept in a folder, one file a run.
#pragma once

#include <string>
#include <vector>

#include "clients/report/llm/llm_row.h"
#include "common/base/result.h"

namespace clients {

// Where and of what a run was.
struct LlmRun {
  std::string id;              // "20261125-204801-1f3c", also the file's name
  std::string at;              // "2026-11-25T20:48:01Z"
  std::string commit, branch;  // of the folder that the command ran in; empty outside of git
  std::string machine, device, driver, cuda;
  std::string mode;
  std::vector<LlmRow> rows;
};

// The file of a run: a line that says what it is, and a line for each row.
std::string run_path(const std::string& folder, const std::string& id);
std::string json_of(const LlmRun& run);  // the first line
// A last line without its end, which a run that was killed left, may be no row. kInvalidInput
// naming another line that is none.
common::Result<LlmRun> read_llm_run(const std::string& path);
// All runs of the folder, oldest first.
common::Result<std::vector<LlmRun>> read_llm_runs(const std::string& folder);

}  // namespace clients
