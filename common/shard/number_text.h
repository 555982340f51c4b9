// Numbers in the text forms of fences and leases.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace common {

// The decimal number that the whole text is; empty when it is none or out of range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

}  // namespace common
