// RemoteStore's calls of scripts.
#include <algorithm>
#include <utility>

#include "cache/remote/remote_store.h"
#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Result;
using Kind = RedisReply::Kind;

namespace {

// How long a server waits for its replicas, less than its answer may take.
int64_t replicas_ms(int64_t answer_ms) { return std::max<int64_t>(1, answer_ms / 2); }

}  // namespace

RemoteScript::RemoteScript(std::string_view head, std::string_view body) : text_(cat(head, body)) {}

Result<RedisReply> RemoteStore::evaluate(RemoteScript& script, std::span<const std::string> keys,
                                         std::span<const std::string_view> arguments,
                                         size_t bytes_max, int64_t replicas) {
  std::string digest;
  {
    std::lock_guard lock(script.mutex_);
    digest = script.digest_;
  }
  if (digest.empty()) {
    LFARM_ASSIGN_OR_RETURN(Replies loaded, ask_script({"SCRIPT", "LOAD", script.text_}, 0, 4096));
    digest = loaded[0].text;
    std::lock_guard lock(script.mutex_);
    script.digest_ = digest;
  }
  std::string count = cat(keys.size());
  RedisCommand command{"EVALSHA", digest, count};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto replies = ask_script(command, replicas, bytes_max);
  // The server was started again, or is another one.
  if (replies.ok() && (*replies)[0].kind == Kind::kError &&
      (*replies)[0].text.starts_with("NOSCRIPT")) {
    command[0] = "EVAL";
    command[1] = script.text_;
    replies = ask_script(command, replicas, bytes_max);
  }
  if (!replies.ok()) return replies.error();
  if ((*replies)[0].kind == Kind::kError) {
    return common::unavailable(cat("the server refuses a script: ", (*replies)[0].text));
  }
  if (replicas > 0 && (*replies)[1].integer < replicas) {
    return common::unavailable(cat("of ", replicas, " replicas of the server at ", address(), ' ',
                                   (*replies)[1].integer, " have a change"));
  }
  return std::move((*replies)[0]);
}

Result<RemoteStore::Replies> RemoteStore::ask_script(const RedisCommand& command, int64_t replicas,
                                                     size_t bytes_max) {
  std::string least = cat(replicas), wait_ms = cat(replicas_ms(options_.answer_ms));
  std::vector<RedisCommand> commands{command};
  if (replicas > 0) commands.push_back({"WAIT", least, wait_ms});
  return ask(Purpose::kScript, commands, bytes_max, options_.answer_ms);
}

Result<std::optional<std::string>> RemoteStore::get_field(std::string_view key,
                                                          std::string_view field) {
  LFARM_ASSIGN_OR_RETURN(RedisReply reply,
                         ask(Purpose::kRead, {"HGET", key, field}, kRecordBytesMax));
  if (reply.kind == Kind::kNil) return std::optional<std::string>();
  if (reply.kind != Kind::kText) {
    return failed(common::corrupt("it gives an answer that was not asked for"));
  }
  return std::optional<std::string>(std::move(reply.text));
}

Result<std::vector<std::optional<std::string>>> RemoteStore::get_fields(
    std::string_view key, std::span<const std::string> fields) {
  std::vector<RedisCommand> commands;
  for (const std::string& field : fields) commands.push_back({"HGET", key, field});
  std::vector<std::optional<std::string>> values;
  if (commands.empty()) return values;
  LFARM_ASSIGN_OR_RETURN(Replies replies,
                         ask(Purpose::kRead, commands, kBundleBytesMax, options_.transfer_ms));
  for (RedisReply& reply : replies) {
    if (reply.kind != Kind::kText && reply.kind != Kind::kNil) {
      return failed(common::corrupt("it gives an answer that was not asked for"));
    }
    values.push_back(reply.kind == Kind::kNil ? std::nullopt
                                              : std::optional(std::move(reply.text)));
  }
  return values;
}

}  // namespace cache
