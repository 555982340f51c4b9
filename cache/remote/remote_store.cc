#include "cache/remote/remote_store.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace cache {

using common::cat;
using common::Code;
using common::Digest;
using common::Error;
using common::Result;
using common::Status;
using Kind = RedisReply::Kind;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
// Of an answer that carries nothing.
constexpr size_t kShortBytesMax = 4096;

// The number is that of this layout: a server may hold what farms of another version put there.
std::string name_of(RemoteRecord record, const Digest& name) {
  constexpr const char* kKinds[] = {"plan", "search", "revocations", "notes", "measurements"};
  return cat("lfarm:1:", kKinds[static_cast<size_t>(record)], ':', name.hex());
}

std::string object_name(const Digest& digest) { return cat("lfarm:1:object:", digest.hex()); }

// One command for each key; the keys are the caller's until the replies have come.
std::vector<RedisCommand> for_each_of(const std::vector<std::string>& keys, const char* word) {
  std::vector<RedisCommand> commands;
  for (const std::string& key : keys) commands.push_back({word, key});
  return commands;
}

size_t bytes_of(std::span<const RedisCommand> commands) {
  size_t bytes = 0;
  for (const RedisCommand& command : commands) {
    for (std::string_view word : command) bytes += word.size();
  }
  return bytes;
}

Error no_such_answer() { return common::corrupt("it gives an answer that was not asked for"); }

}  // namespace

// ---- Asking, and leaving alone -----------------------------------------------------------------

RemoteStore::RemoteStore(RemoteOptions options)
    : options_(std::move(options)),
      breaker_(cat("the remote store at ", options_.address.text), "plans", options_.retry) {}

// Connections of before the trouble are of no use after it.
Error RemoteStore::failed(Error error) {
  idle_.clear();
  return breaker_.failed(std::move(error));
}

// A connection that was idle may have been closed for it, which says nothing about the server.
Result<RemoteStore::Replies> RemoteStore::exchange(std::span<const RedisCommand> commands,
                                                   size_t bytes_max, int64_t deadline_ns) {
  if (auto connection = idle_.take()) {
    auto replies = connection->ask(commands, bytes_max, deadline_ns);
    if (replies.ok()) idle_.give_back(std::move(connection));
    if (replies.ok() || replies.error().code != Code::kUnavailable) return replies;
  }
  int64_t greeted_ns = common::SteadyClock().now_ns() + options_.answer_ms * kNsPerMs;
  LFARM_ASSIGN_OR_RETURN(auto connection, RedisConnection::open(options_.address, options_.password,
                                                                std::min(deadline_ns, greeted_ns)));
  LFARM_ASSIGN_OR_RETURN(Replies replies, connection->ask(commands, bytes_max, deadline_ns));
  idle_.give_back(std::move(connection));
  return replies;
}

Result<RemoteStore::Replies> RemoteStore::ask(Purpose purpose,
                                              std::span<const RedisCommand> commands,
                                              size_t bytes_max, int64_t limit_ms) {
  LFARM_RETURN_IF_ERROR(breaker_.admit(limit_ms));
  int64_t deadline_ns = common::SteadyClock().now_ns() + limit_ms * kNsPerMs;
  auto replies = exchange(commands, bytes_max, deadline_ns);
  if (!replies.ok()) return failed(replies.error());
  auto is_error = [](const RedisReply& reply) { return reply.kind == Kind::kError; };
  auto error = std::find_if(replies->begin(), replies->end(), is_error);
  bool is_refused =
      purpose == Purpose::kRead
          ? error != replies->end()
          : purpose == Purpose::kEach && std::all_of(replies->begin(), replies->end(), is_error);
  if (is_refused) return failed(common::unavailable(cat("it refuses this farm: ", error->text)));
  breaker_.succeeded();
  size_t bytes_in = 0;
  for (const RedisReply& reply : *replies) bytes_in += reply.text.size();
  breaker_.count_bytes(bytes_in, bytes_of(commands));
  if (purpose == Purpose::kWrite) LFARM_RETURN_IF_ERROR(check_writes(*replies));
  return replies;
}

Result<RedisReply> RemoteStore::ask(Purpose purpose, const RedisCommand& command,
                                    size_t bytes_max) {
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(purpose, {&command, 1}, bytes_max, options_.answer_ms));
  return std::move(replies[0]);
}

// A server that is full, or a replica, still answers questions.
Status RemoteStore::check_writes(const Replies& replies) {
  auto error = std::find_if(replies.begin(), replies.end(),
                            [](const RedisReply& reply) { return reply.kind == Kind::kError; });
  return breaker_.note_write(error == replies.end() ? "" : error->text);
}

// ---- Records -----------------------------------------------------------------------------------

Result<std::optional<std::string>> RemoteStore::get(RemoteRecord record, const Digest& name) {
  std::string key = name_of(record, name);
  LFARM_ASSIGN_OR_RETURN(RedisReply reply, ask(Purpose::kRead, {"GET", key}, kRecordBytesMax));
  if (reply.kind == Kind::kNil) return std::optional<std::string>();
  if (reply.kind != Kind::kText) return failed(no_such_answer());
  return std::optional<std::string>(std::move(reply.text));
}

Result<std::vector<std::optional<std::string>>> RemoteStore::get_all(
    RemoteRecord record, std::span<const Digest> names) {
  std::vector<std::string> keys;
  for (const Digest& name : names) keys.push_back(name_of(record, name));
  std::vector<RedisCommand> commands = for_each_of(keys, "GET");
  std::vector<std::optional<std::string>> records;
  if (commands.empty()) return records;
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(Purpose::kRead, commands, kBundleBytesMax, options_.transfer_ms));
  for (RedisReply& reply : replies) {
    if (reply.kind != Kind::kText && reply.kind != Kind::kNil) return failed(no_such_answer());
    records.push_back(reply.kind == Kind::kNil ? std::nullopt
                                               : std::optional(std::move(reply.text)));
  }
  return records;
}

Result<std::vector<Result<std::optional<std::string>>>> RemoteStore::get_each(
    RemoteRecord record, std::span<const Digest> names) {
  std::vector<std::string> keys;
  for (const Digest& name : names) keys.push_back(name_of(record, name));
  std::vector<RedisCommand> commands = for_each_of(keys, "GET");
  std::vector<Result<std::optional<std::string>>> records;
  if (commands.empty()) return records;
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(Purpose::kEach, commands, kBundleBytesMax, options_.transfer_ms));
  for (RedisReply& reply : replies) {
    if (reply.kind == Kind::kText) {
      records.emplace_back(std::optional(std::move(reply.text)));
    } else if (reply.kind == Kind::kNil) {
      records.emplace_back(std::optional<std::string>());
    } else {
      records.emplace_back(reply.kind == Kind::kError
                               ? common::corrupt(cat("it cannot be read: ", reply.text))
                               : no_such_answer());
    }
  }
  return records;
}

Status RemoteStore::put(RemoteRecord record, const Digest& name, std::string_view bytes) {
  std::string key = name_of(record, name);
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] RedisReply reply,
                         ask(Purpose::kWrite, {"SET", key, bytes}, kShortBytesMax));
  return {};
}

Status RemoteStore::remove(RemoteRecord record, std::span<const Digest> names) {
  std::vector<std::string> keys;
  for (const Digest& name : names) keys.push_back(name_of(record, name));
  std::vector<RedisCommand> commands = for_each_of(keys, "DEL");
  if (commands.empty()) return {};
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] Replies replies,
                         ask(Purpose::kWrite, commands, kShortBytesMax, options_.answer_ms));
  return {};
}

// ---- Objects -----------------------------------------------------------------------------------

Result<std::optional<std::vector<std::string>>> RemoteStore::get_objects(
    std::span<const Digest> digests) {
  std::vector<std::string> keys;
  for (const Digest& digest : digests) keys.push_back(object_name(digest));
  std::vector<RedisCommand> commands = for_each_of(keys, "GET");
  std::vector<std::string> objects;
  if (commands.empty()) return std::optional(std::move(objects));
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(Purpose::kRead, commands, kBundleBytesMax, options_.transfer_ms));
  for (size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].kind == Kind::kNil) return std::optional<std::vector<std::string>>();
    LFARM_RETURN_IF_ERROR(check_object(digests[i], replies[i].text));
    objects.push_back(std::move(replies[i].text));
  }
  return std::optional(std::move(objects));
}

Result<bool> RemoteStore::has_objects(std::span<const Digest> digests) {
  std::vector<std::string> keys;
  for (const Digest& digest : digests) keys.push_back(object_name(digest));
  std::vector<RedisCommand> commands = for_each_of(keys, "EXISTS");
  if (commands.empty()) return true;
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(Purpose::kRead, commands, kShortBytesMax, options_.answer_ms));
  return std::all_of(replies.begin(), replies.end(), [](const RedisReply& reply) {
    return reply.kind == Kind::kInteger && reply.integer == 1;
  });
}

Status RemoteStore::put_objects(std::span<const RemoteObject> objects) {
  LFARM_RETURN_IF_ERROR(check_size(objects));
  std::vector<std::string> keys;
  for (const RemoteObject& object : objects) keys.push_back(object_name(object.digest));
  std::vector<RedisCommand> questions = for_each_of(keys, "EXISTS");
  std::vector<RedisCommand> commands;
  if (!questions.empty()) {
    LFARM_ASSIGN_OR_RETURN(Replies replies,
                           ask(Purpose::kRead, questions, kShortBytesMax, options_.answer_ms));
    for (size_t i = 0; i < objects.size(); ++i) {
      if (replies[i].integer != 1) commands.push_back({"SET", keys[i], objects[i].bytes});
    }
  }
  if (!commands.empty()) {
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] Replies replies,
                           ask(Purpose::kWrite, commands, kShortBytesMax, options_.transfer_ms));
  }
  return {};
}

// ---- Claims ------------------------------------------------------------------------------------

Result<bool> RemoteStore::claim(const Digest& name, std::string_view value, int64_t ms) {
  std::string key = name_of(RemoteRecord::kSearch, name), time = cat(ms);
  LFARM_ASSIGN_OR_RETURN(
      RedisReply reply,
      ask(Purpose::kWrite, {"SET", key, value, "NX", "PX", time}, kShortBytesMax));
  return reply.kind == Kind::kStatus;
}

// Between question and answer another farm may have taken a claim that ran out: then two search,
// which costs time and nothing else.
Result<bool> RemoteStore::renew(const Digest& name, std::string_view value, std::string_view next,
                                int64_t ms) {
  LFARM_ASSIGN_OR_RETURN(auto now, get(RemoteRecord::kSearch, name));
  if (now && *now != value) return false;
  std::string key = name_of(RemoteRecord::kSearch, name), time = cat(ms);
  LFARM_ASSIGN_OR_RETURN(
      RedisReply reply,
      ask(Purpose::kWrite, {"SET", key, next, now ? "XX" : "NX", "PX", time}, kShortBytesMax));
  return reply.kind == Kind::kStatus;
}

Status RemoteStore::release(const Digest& name, std::string_view value) {
  LFARM_ASSIGN_OR_RETURN(auto now, get(RemoteRecord::kSearch, name));
  if (!now || *now != value) return {};
  return remove(RemoteRecord::kSearch, {&name, 1});
}

}  // namespace cache
