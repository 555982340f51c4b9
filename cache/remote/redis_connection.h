// One connection to a server that speaks the Redis protocol, with deadlines that hold whatever the
// server does: hiredis writes commands and reads replies, the waiting is done here, because its own
// time-outs begin anew with every byte.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/remote_address.h"
#include "common/base/result.h"

namespace cache {

struct RedisReply {
  enum class Kind : uint8_t { kNil, kText, kStatus, kError, kInteger };
  Kind kind = Kind::kNil;
  std::string text;  // of kText, kStatus and kError
  int64_t integer = 0;
};

// A command's words; the bytes are the caller's until ask() returns.
using RedisCommand = std::vector<std::string_view>;

// Not thread-safe. Once a call has failed the connection is of no more use. Deadlines are
// nanoseconds of common::SteadyClock. Lists are no replies that anything here asks for: who sends
// one breaks the protocol.
class RedisConnection {
 public:
  // Connects, says who it is and chooses the database. A name that must be looked up is not covered
  // by the deadline: wait for this in a thread that can be kept waiting.
  static common::Result<std::unique_ptr<RedisConnection>> open(const RemoteAddress& address,
                                                               const std::string& password,
                                                               int64_t deadline_ns);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // Sends all commands at once and returns as many replies, among which may be errors. kTimedOut;
  // kUnavailable when the connection breaks; kCorrupt when what comes is no Redis protocol, or
  // replies have more than `bytes_max` bytes together.
  common::Result<std::vector<RedisReply>> ask(std::span<const RedisCommand> commands,
                                              size_t bytes_max, int64_t deadline_ns);

 private:
  struct State;
  explicit RedisConnection(std::unique_ptr<State> state);
  common::Status greet(const RemoteAddress& address, const std::string& password,
                       int64_t deadline_ns);
  std::unique_ptr<State> state_;
};

}  // namespace cache
