// One measurement of a language model: a model, a way to run it, and a length of the prompt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace clients {

struct LlmRow {
  std::string model;
  std::string way;    // "eager", "torch.compile", "torch.compile+lfarm", "lfarm"
  std::string shape;  // "full", or what of the published shape it is
  int64_t prompt_tokens = 0;
  int64_t budget = 0;           // candidates of a search; 0: the farm's default, or none
  std::vector<double> ttft_ms;  // of each sample: to the first token,
  std::vector<double> tpot_ms;  // and for each of the others
  double plan_s = 0;            // until it could run, compiled and searched for
  double peak_mb = 0;           // of the process, or of the GPU's memory
  std::string error;            // why there is no number
};

// 0 of none.
double median_of(std::vector<double> values);
// One line of JSON, with medians beside the samples.
std::string json_of(const LlmRow& row);
// kInvalidInput for a line that is none.
common::Result<LlmRow> row_of(const std::string& line);
// Markdown, a line each.
std::string table_of(const std::vector<LlmRow>& rows);

}  // namespace clients
