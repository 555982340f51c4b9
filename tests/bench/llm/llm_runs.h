// Begins and keeps runs of `lfarm-bench llm`.
#pragma once

#include <string>

#include "clients/report/llm/llm_runs.h"
#include "common/base/result.h"

namespace bench {

using clients::LlmRow;
using clients::LlmRun;

// A new run on this machine; `device` is "cpu" or a GPU.
LlmRun begin_run(const std::string& mode, const std::string& device);
// Writes the run's file. Adds one row to it, which is safe from then on.
common::Status write_run(const std::string& folder, const LlmRun& run);
common::Status append_row(const std::string& folder, const std::string& id, const LlmRow& row);

}  // namespace bench
