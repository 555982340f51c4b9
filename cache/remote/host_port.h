// "host[:port]" in the addresses of servers, an IPv6 host in brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace cache {

struct HostPort {
  std::string host;         // without brackets
  std::optional<int> port;  // empty: none is written
};

// kInvalidInput says what is wrong, in words that follow the address.
common::Result<HostPort> parse_host_port(std::string_view text);

// A decimal number and nothing else; empty when it is none from `min` to `max`.
std::optional<int> parse_number(std::string_view digits, int min, int max);

}  // namespace cache
