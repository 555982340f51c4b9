#include "cache/remote/remote_address.h"

#include <utility>

#include "cache/remote/host_port.h"
#include "common/base/cat.h"

namespace cache {
namespace {

using common::cat;
using common::Result;

constexpr std::string_view kTcp = "redis://";
constexpr std::string_view kUnix = "redis+unix://";
constexpr size_t kAddressBytesMax = 512;
// ZeroMQ's and Redis's paths alike are those of sockaddr_un.
constexpr size_t kSocketPathMax = 100;
constexpr int kDatabaseMax = 1'000'000;

bool is_plain(std::string_view text) {
  for (char c : text) {
    if (c <= ' ' || c >= 0x7f) return false;
  }
  return true;
}

}  // namespace

Result<RemoteAddress> parse_remote_address(std::string_view text) {
  auto refuse = [&](std::string_view why) {
    return common::invalid_input(cat("'", text, "' names no remote store: ", why,
                                     "; write redis://[user@]host[:port][/database] or "
                                     "redis+unix:///path"));
  };
  RemoteAddress address;
  address.text = std::string(text);
  if (text.size() > kAddressBytesMax || !is_plain(text)) return refuse("it is no plain text");
  if (text.starts_with(kUnix)) {
    address.socket = std::string(text.substr(kUnix.size()));
    if (!address.socket.starts_with('/')) return refuse("the path must be absolute");
    if (address.socket.size() > kSocketPathMax) return refuse("the path is too long for a socket");
    return address;
  }
  if (!text.starts_with(kTcp)) return refuse("it does not begin with redis://");
  std::string_view rest = text.substr(kTcp.size());
  if (size_t at = rest.rfind('@'); at != std::string_view::npos) {
    address.user = std::string(rest.substr(0, at));
    rest.remove_prefix(at + 1);
    if (address.user.find(':') != std::string::npos) {
      // Not even repeated in the message.
      return common::invalid_input(
          "the remote store's address holds a password, which every user of this machine could "
          "read; put it into a file and name that with --remote-password-file");
    }
  }
  if (size_t slash = rest.find('/'); slash != std::string_view::npos) {
    auto database = parse_number(rest.substr(slash + 1), 0, kDatabaseMax);
    if (!database) return refuse("the database is no number");
    address.database = *database;
    rest = rest.substr(0, slash);
  }
  auto parsed = parse_host_port(rest);
  if (!parsed.ok()) return refuse(parsed.error().message);
  address.host = std::move(parsed->host);
  address.port = parsed->port.value_or(address.port);
  return address;
}

}  // namespace cache
