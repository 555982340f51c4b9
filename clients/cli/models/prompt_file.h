// Token ids from a file, for `lfarm generate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace clients {

// The sequences of a file, "-" being standard input: a NumPy array of int64 or int32 ([length] or
// [batch, length]), a JSON list of numbers or of lists, or text with the ids of one sequence on
// each line, separated by blanks or commas. kInvalidInput names the file and what is no id.
common::Result<std::vector<std::vector<int64_t>>> read_prompts(const std::string& path);
// The same from the file's text.
common::Result<std::vector<std::vector<int64_t>>> parse_prompts(const std::string& text);

}  // namespace clients
