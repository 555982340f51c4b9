// Pieces of the IR's text forms: lists in brackets, "key=value" pairs, numbers. What cannot be read
// is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ir/expr/expr.h"

namespace common {

// Without the spaces around it.
std::string_view trim(std::string_view s);
// Splits at commas that are outside parentheses.
std::vector<std::string_view> split_list(std::string_view s);
std::optional<int64_t> parse_int(std::string_view s);
std::optional<std::vector<Expr>> parse_exprs(const std::vector<std::string_view>& parts);

// "key=value" pairs where a value may be a bracketed list.
struct Fields {
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<std::vector<std::string_view>> list(std::string_view key) const;
};
std::optional<Fields> parse_fields(std::string_view s);

}  // namespace common
