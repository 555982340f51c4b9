#include "cache/remote/host_port.h"

#include <charconv>

namespace cache {

std::optional<int> parse_number(std::string_view digits, int min, int max) {
  int value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (value < min || value > max) return std::nullopt;
  return value;
}

common::Result<HostPort> parse_host_port(std::string_view text) {
  HostPort parsed;
  std::string_view port;
  if (text.starts_with('[')) {
    size_t end = text.find(']');
    if (end == std::string_view::npos) return common::invalid_input("a bracket is not closed");
    parsed.host = std::string(text.substr(1, end - 1));
    port = text.substr(end + 1);
  } else {
    size_t colon = text.find(':');
    parsed.host = std::string(text.substr(0, colon));
    port = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (parsed.host.empty()) return common::invalid_input("the host is missing");
  if (port.empty()) return parsed;
  parsed.port = port[0] == ':' ? parse_number(port.substr(1), 1, 65'535) : std::nullopt;
  if (!parsed.port) return common::invalid_input("the port is no number from 1 to 65535");
  return parsed;
}

}  // namespace cache
