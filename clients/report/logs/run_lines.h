// The lines of a run's log (common/records/run_log.h) before anybody reads more than its head.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "clients/report/logs/json_words.h"
#include "clients/report/logs/run_head.h"
#include "common/base/result.h"
#include "common/records/run_log.h"

namespace clients {

inline constexpr const char* kTrainingKind = "training";
inline constexpr const char* kValidationKind = "validation";
inline constexpr const char* kSearchKind = "search";
inline constexpr const char* kPlanKind = "plan_memory";

inline constexpr size_t kLogLineMax = size_t{2} << 20;  // bytes

// Whether a file begins as a log does, and not as measurements do.
bool begins_a_log(std::string_view text);

struct SplitLog {
  common::RunLog log;
  int64_t first_line = 1;  // of the file
};
// The logs of a file, read no further than their heads. kInvalidInput naming the line. `now_ns`:
// the time of logs without one.
common::Result<std::vector<SplitLog>> split_logs(std::string_view text, int64_t now_ns);

// Reads the head's words, those that its kind alone has by `take_own`, and gives each line after it
// to `take`. kInvalidInput naming the line, counted from `first_line`, that is no object or
// refused.
using TakeWords = std::function<void(Words& head)>;
using TakeLine = std::function<common::Status(const nlohmann::json& line)>;
common::Status read_lines(const common::RunLog& log, int64_t first_line, RunHead* head,
                          const TakeWords& take_own, const TakeLine& take);

}  // namespace clients
