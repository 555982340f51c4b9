// cat("a", 3, ' ', 2.5): builds a message without a formatting library in every file.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace common {

inline void cat_append(std::string& out, std::string_view piece) { out += piece; }
inline void cat_append(std::string& out, const char* piece) { out += piece; }
inline void cat_append(std::string& out, const std::string& piece) { out += piece; }
inline void cat_append(std::string& out, char piece) { out += piece; }
inline void cat_append(std::string& out, bool piece) { out += piece ? "true" : "false"; }
template <class Number>
requires(std::is_arithmetic_v<Number>) void cat_append(std::string& out, Number number) {
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  out.append(buffer, end);
}

// Concatenates strings, characters and numbers; floating-point numbers in shortest exact form.
template <class... Pieces>
std::string cat(const Pieces&... pieces) {
  std::string out;
  (cat_append(out, pieces), ...);
  return out;
}

}  // namespace common
