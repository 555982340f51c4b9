#include "common/ir/hlir/text_fields.h"

#include <charconv>

namespace common {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at commas that are outside parentheses.
std::vector<std::string_view> split_list(std::string_view s) {
  std::vector<std::string_view> parts;
  if (trim(s).empty()) return parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '(') ++depth;
    if (s[i] == ')') --depth;
    if (s[i] == ',' && depth == 0) {
      parts.push_back(trim(s.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.push_back(trim(s.substr(begin)));
  return parts;
}

std::optional<int64_t> parse_int(std::string_view s) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return value;
}

std::optional<std::string_view> Fields::text(std::string_view key) const {
  for (const auto& [k, v] : entries) {
    if (k == key) return v;
  }
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view key) const {
  auto value = text(key);
  return value ? parse_int(*value) : std::nullopt;
}

std::optional<std::vector<std::string_view>> Fields::list(std::string_view key) const {
  auto value = text(key);
  if (!value || value->size() < 2 || value->front() != '[') return std::nullopt;
  return split_list(value->substr(1, value->size() - 2));
}

std::optional<Fields> parse_fields(std::string_view s) {
  Fields fields;
  s = trim(s);
  while (!s.empty()) {
    size_t equals = s.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    std::string_view key = trim(s.substr(0, equals));
    s.remove_prefix(equals + 1);
    size_t end = s.starts_with('[') ? s.find(']') : s.find(' ');
    if (s.starts_with('[')) {
      if (end == std::string_view::npos) return std::nullopt;
      ++end;
    }
    fields.entries.emplace_back(key, s.substr(0, end));
    s = end == std::string_view::npos ? std::string_view() : trim(s.substr(end));
  }
  return fields;
}

std::optional<std::vector<Expr>> parse_exprs(const std::vector<std::string_view>& parts) {
  std::vector<Expr> result;
  for (std::string_view part : parts) {
    auto e = parse_expr(part);
    if (!e.ok()) return std::nullopt;
    result.push_back(*e);
  }
  return result;
}

}  // namespace common
