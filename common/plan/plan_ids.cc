#include "common/plan/plan_ids.h"

#include "common/base/cat.h"

namespace common {
namespace {

constexpr size_t kIdsNamed = 8;
constexpr size_t kDigitsMax = 64;

}  // namespace

Status check_plan_digits(std::string_view digits) {
  bool is_hex = digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (is_hex && !digits.empty() && digits.size() <= kDigitsMax) return {};
  return invalid_input(cat("'", digits, "' is no id of a plan: ids have 64 hexadecimal digits, of ",
                           "which the first are enough where no other plan has them"));
}

Error ambiguous_digits(std::string_view digits, const std::vector<Digest>& plans) {
  std::string ids;
  for (size_t k = 0; k < plans.size() && k < kIdsNamed; ++k) {
    ids += cat(k == 0 ? "" : ", ", plans[k].short_hex());
  }
  if (plans.size() > kIdsNamed) ids += ", ...";
  return invalid_input(
      cat(plans.size(), " plans go by '", digits, "': ", ids, "; give the id of one"));
}

}  // namespace common
