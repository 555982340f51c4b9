// A store that several farms share, on a server that speaks the Redis protocol (Redis, Valkey,
// Kvrocks): byte strings under names, nothing that the server has to compute.
//
// Nothing that comes from there is believed here, but that objects have their digests: what the
// bytes mean and who signed them is for the caller to check. A server that is away, slow, full or
// refuses costs its callers at most one limit, once (CircuitBreaker).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote/circuit_breaker.h"
#include "cache/remote/idle_connections.h"
#include "cache/remote/redis_connection.h"
#include "cache/remote/remote_address.h"
#include "cache/remote/remote_objects.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace cache {

struct RemoteOptions {
  RemoteAddress address;
  std::string password;        // empty: none is given
  int64_t answer_ms = 200;     // until a question is answered
  int64_t transfer_ms = 2000;  // until a plan's objects have come or gone
  RetryTimes retry;
};

// What lies under a name.
enum class RemoteRecord : uint8_t { kPlan, kSearch, kRevocations, kNotes, kMeasurements };

// A Lua script, sent once to each server and called by its digest from then on. Thread-safe.
class RemoteScript {
 public:
  // The text of both, one after the other.
  explicit RemoteScript(std::string_view head, std::string_view body = {});
  RemoteScript(const RemoteScript&) = delete;
  RemoteScript& operator=(const RemoteScript&) = delete;

 private:
  friend class RemoteStore;
  const std::string text_;
  std::mutex mutex_;
  std::string digest_;  // as the server names it; empty: it was not sent yet
};

// Thread-safe. Every call may wait for the network, by the limits in the options: kUnavailable and
// kTimedOut say that the server cannot be used now, kCorrupt that it sent what it should not have.
class RemoteStore final : public RemoteObjects {
 public:
  explicit RemoteStore(RemoteOptions options);
  RemoteStore(const RemoteStore&) = delete;
  RemoteStore& operator=(const RemoteStore&) = delete;

  // Of a record, which is no object.
  static constexpr size_t kRecordBytesMax = size_t{16} << 20;

  // Empty when there is none.
  common::Result<std::optional<std::string>> get(RemoteRecord record, const common::Digest& name);
  // The same of many, in one exchange.
  common::Result<std::vector<std::optional<std::string>>> get_all(
      RemoteRecord record, std::span<const common::Digest> names);
  // The same where one that cannot be read shall delay no other: its error is in its place. An
  // error of the whole when the server cannot be used, or reads none of them.
  common::Result<std::vector<common::Result<std::optional<std::string>>>> get_each(
      RemoteRecord record, std::span<const common::Digest> names);
  common::Status put(RemoteRecord record, const common::Digest& name, std::string_view bytes);
  // All of them, in one exchange.
  common::Status remove(RemoteRecord record, std::span<const common::Digest> names);

  common::Result<std::optional<std::vector<std::string>>> get_objects(
      std::span<const common::Digest> digests) override;
  common::Result<bool> has_objects(std::span<const common::Digest> digests) override;
  common::Status put_objects(std::span<const RemoteObject> objects) override;

  // A right that one farm has at a time: `value` says whose, and the server forgets it after `ms`.
  // False when somebody has it. It saves work and guards nothing: a server may lose it any time.
  common::Result<bool> claim(const common::Digest& name, std::string_view value, int64_t ms);
  // Puts `next` in the place of `value` for another `ms`. False when somebody else has it.
  common::Result<bool> renew(const common::Digest& name, std::string_view value,
                             std::string_view next, int64_t ms);
  common::Status release(const common::Digest& name, std::string_view value);

  // --- Scripts, for a store in which something is true (cache/engine) ---------------------------
  // Runs the script alone on the server and returns its reply, which is no list and no error. Then
  // waits until `replicas` of the server have what it wrote: kUnavailable when they are fewer,
  // though the script has run. After kUnavailable and kTimedOut it may have run, maybe twice.
  common::Result<RedisReply> evaluate(RemoteScript& script, std::span<const std::string> keys,
                                      std::span<const std::string_view> arguments, size_t bytes_max,
                                      int64_t replicas);
  // A field of a hash; empty when there is none.
  common::Result<std::optional<std::string>> get_field(std::string_view key,
                                                       std::string_view field);
  // The same of many, in one exchange.
  common::Result<std::vector<std::optional<std::string>>> get_fields(
      std::string_view key, std::span<const std::string> fields);

  const std::string& address() const { return options_.address.text; }
  // Whether a question would be refused unasked.
  bool rests() const { return breaker_.is_open(); }
  RemoteHealth health() const override { return breaker_.health(); }

 private:
  // Errors that a script replies are its caller's matter, and those of some of many records.
  enum class Purpose : uint8_t { kRead, kEach, kWrite, kScript };
  using Replies = std::vector<RedisReply>;
  common::Result<Replies> ask(Purpose purpose, std::span<const RedisCommand> commands,
                              size_t bytes_max, int64_t limit_ms);
  common::Result<RedisReply> ask(Purpose purpose, const RedisCommand& command, size_t bytes_max);
  common::Result<Replies> ask_script(const RedisCommand& command, int64_t replicas,
                                     size_t bytes_max);
  common::Result<Replies> exchange(std::span<const RedisCommand> commands, size_t bytes_max,
                                   int64_t deadline_ns);
  common::Error failed(common::Error error);
  common::Status check_writes(const Replies& replies);

  static constexpr size_t kIdleMax = 4;
  const RemoteOptions options_;
  CircuitBreaker breaker_;
  IdleConnections<RedisConnection> idle_{kIdleMax};
};

}  // namespace cache
