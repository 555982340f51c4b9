// What one run told of its course, line by line: a training its losses, a validation its variants,
// a search its candidates.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace common {

// Two logs are of the same run, of which the later one counts, when they differ in no text but
// `lines`.
struct RunLog {
  int64_t at_ns = 0;  // since 1970, when the run began
  std::string kind;   // "training", "validation", "search"
  std::string name;   // of what was trained, validated or searched for
  std::string machine;
  std::string device;
  // One JSON object a line, of which the first says all of the above; docs/measuring.md has the
  // words. Whoever shows a log reads them; a database keeps them as they are.
  std::string lines;
  friend bool operator==(const RunLog&, const RunLog&) = default;
};

inline constexpr size_t kRunLogBytesMax = size_t{32} << 20;  // of `lines`

// kInvalidInput naming the field: texts are as a record's, only `machine` and `device` may be
// empty, and `lines` holds no control characters but the ends of lines.
Status check_run_log(const RunLog& log);

}  // namespace common
