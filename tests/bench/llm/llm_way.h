// The ways to run a language model that `lfarm-bench llm` compares, each in processes of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clients/report/llm/llm_row.h"
#include "common/base/result.h"

namespace bench {

using clients::LlmRow;

struct LlmOptions {
  std::vector<std::string> python;  // "chroot", "/srv/sid", "python3"
  std::string lfarm;                // the command
  std::string session;              // JSON: what torch.compile's backend is told, lfarm.Session's
  std::string size = "auto";        // "full", "reduced", or full where memory holds the weights
  std::string dtype = "bf16";
  std::string device = "cpu";
  std::vector<int64_t> prompts = {128, 2048};  // tokens
  int64_t tokens = 32;
  int64_t samples = 5;
  int threads = 1;
  int64_t timeout_s = 3600;  // of one way of a model
};

inline constexpr const char* kLlmModels[] = {"llama3_8b", "gemma3_4b",     "gemma4_moe",
                                             "qwen3_4b",  "qwen3_30b_a3b", "qwen3_0.6b"};
inline constexpr const char* kLlmWays[] = {"eager", "torch.compile", "torch.compile+lfarm",
                                           "lfarm"};

// A row for each length of a prompt; one with an error where the way failed. `budget`: candidates
// of lfarm's searches, 0 for the farm's default. `work`: a folder for what lives as long as this
// call; plans are looked for in an empty state directory, so that `plan_s` is of a first use.
std::vector<LlmRow> measure_way(const LlmOptions& options, const std::string& model,
                                const std::string& way, int64_t budget, const std::string& work);

}  // namespace bench
