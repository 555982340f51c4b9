// A validation as its log tells of it: how fast and how exact the variants of a model are at some
// batches, beside the teacher that they come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

inline constexpr size_t kVariantsMax = 64;
inline constexpr size_t kVariantRowsMax = 4'096;  // lines
// A variant passes whose time is at most kSpeedLimit times the teacher's, and whose error is at
// most kErrorFactor times the teacher's plus kErrorFloor.
inline constexpr double kSpeedLimit = 1.05;
inline constexpr double kErrorFactor = 1.5, kErrorFloor = 0.001;

enum class VariantVerdict { kPass, kPassInSpeed, kPassInAccuracy, kFail };
// "pass", "pass in speed", "pass in accuracy", "fail".
const char* verdict_name(VariantVerdict verdict);

// A variant at a batch, and what it is to the teacher there.
struct VariantRow {
  std::string variant;
  int64_t batch = 0;
  double latency_ms = 0, spread_ms = 0;
  double error = 0;
  // Both empty for the teacher itself and where it was not measured at the batch.
  std::optional<double> time_ratio;   // over the teacher's time
  std::optional<double> error_limit;  // that the gate sets
  std::optional<double> error_ratio;  // over the teacher's error; empty where that is 0
  std::optional<VariantVerdict> verdict;
};

struct Validation {
  RunHead head;
  std::string teacher;
  std::vector<std::string> variants;  // the teacher first, the others as they came
  std::vector<VariantRow> rows;       // by variant, in that order, and batch
};

// Of two lines of a variant at a batch the later counts. kInvalidInput naming the line;
// `first_line` is the number of the log's first.
common::Result<Validation> parse_validation(const common::RunLog& log, int64_t first_line = 1);

// The verdict over all batches: pass where each passes, in speed where each is fast enough, and so
// on. Empty where no row has one.
std::optional<VariantVerdict> verdict_of(const Validation& validation, const std::string& variant);

}  // namespace clients
