// Runs of `lfarm-bench llm`: what they measured, kept in a folder, one file a run.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tests/bench/llm/llm_row.h"

namespace bench {

// Where and of what a run was.
struct LlmRun {
  std::string id;              // "20261125-204801-1f3c", also the file's name
  std::string at;              // "2026-11-25T20:48:01Z"
  std::string commit, branch;  // of the folder that the command runs in; empty outside of git
  std::string machine, device, driver, cuda;
  std::string mode;
  std::vector<LlmRow> rows;
};

// A new run on this machine; `device` is "cpu" or a GPU.
LlmRun begin_run(const std::string& mode, const std::string& device);
// The file of a run, with a first line that says what it is. Adds one row to it, which is safe from
// then on.
std::string run_path(const std::string& folder, const std::string& id);
common::Status write_run(const std::string& folder, const LlmRun& run);
common::Status append_row(const std::string& folder, const std::string& id, const LlmRow& row);
// kInvalidInput naming the line that is none.
common::Result<LlmRun> read_run(const std::string& path);
// All runs of the folder, oldest first.
common::Result<std::vector<LlmRun>> read_runs(const std::string& folder);
std::string json_of(const LlmRun& run);

}  // namespace bench
