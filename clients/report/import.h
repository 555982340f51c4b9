// Measurements of other programs: one JSON object a line, in the words of docs/measuring.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/records/record.h"

namespace clients {

inline constexpr size_t kImportBytesMax = size_t{64} << 20;
inline constexpr size_t kImportLineMax = size_t{64} << 10;

// The records of all lines; empty lines are skipped. kInvalidInput naming the line of `name` and
// what is wrong with it: no JSON object, a word twice or one that is not known, a value of another
// type or outside its range. `now_ns`: the time of lines that give none.
common::Result<std::vector<common::Record>> parse_measurements(std::string_view text,
                                                               const std::string& name,
                                                               int64_t now_ns);

}  // namespace clients
