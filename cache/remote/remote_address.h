// Where a store that farms share is: an address as people write it, taken apart and checked once.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace cache {

struct RemoteAddress {
  std::string host;  // empty: the socket
  int port = 6379;
  std::string socket;  // path of a Unix socket
  std::string user;    // empty: the default user
  int database = 0;
  // As it was written, which holds no secret.
  std::string text;
};

// "redis://[user@]host[:port][/database]", an IPv6 host in brackets, or "redis+unix:///path".
// kInvalidInput says what is wrong; a password in it is, because command lines are public.
common::Result<RemoteAddress> parse_remote_address(std::string_view text);

}  // namespace cache
