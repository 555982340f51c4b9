// Plans by the first digits of their ids, as people give them.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/digest.h"
#include "common/base/result.h"

namespace common {

// kInvalidInput unless the text is 1 to 64 hexadecimal digits.
Status check_plan_digits(std::string_view digits);
// kInvalidInput for several plans whose id, key or graph begins with the digits: it lists their
// ids.
Error ambiguous_digits(std::string_view digits, const std::vector<Digest>& plans);

}  // namespace common
