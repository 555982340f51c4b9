#include "cache/engine/remote_engine.h"

#include <utility>

#include "common/base/cat.h"

namespace cache {

using common::cat;
using common::Digest;
using common::Fence;
using common::Result;
using Kind = RedisReply::Kind;

namespace {

constexpr size_t kAnswerBytesMax = 4096;
constexpr size_t kDigestDigits = 64;
// A hash whose table grows or shrinks answers with more than was asked for.
constexpr size_t kNamesBytesMax = kDigestDigits * 100'000;

// Both scripts answer "VERDICT TRANSITIONS INCARNATION SEQUENCE". A shard that was never held has a
// fence of zeros, which is before every other.
constexpr const char* kLook =
    "return redis.call('GET', KEYS[1]) or ('0 ' .. string.rep('0', 32) .. ' 0')";

constexpr const char* kReadFence = R"(
local there = redis.call('GET', KEYS[1]) or ('0 ' .. string.rep('0', 32) .. ' 0')
local transitions, incarnation, sequence = string.match(there, '^(%d+) (%x+) (%d+)$')
if not transitions then return redis.error_reply('a damaged fence: ' .. there) end
local is_ours = transitions == ARGV[1] and incarnation == ARGV[2]
local is_before = tonumber(transitions) < tonumber(ARGV[1])
)";

constexpr const char* kRaise = R"(
if not is_ours then
  if not is_before then return 'stale ' .. there end
  there = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. sequence
  redis.call('SET', KEYS[1], there)
end
return 'taken ' .. there
)";

// ARGV[3] is the sequence number; then come three words a change: which key, which field, and
// "=" with its bytes behind or "-".
constexpr const char* kWrite = R"(
if is_before then return 'behind ' .. there end
if not is_ours then return 'stale ' .. there end
local ahead = tonumber(ARGV[3]) - tonumber(sequence)
if ahead < 0 then return 'stale ' .. there end
if ahead == 0 then return 'taken ' .. there end
if ahead > 1 then return 'behind ' .. there end
for i = 4, #ARGV, 3 do
  local key = KEYS[tonumber(ARGV[i])]
  if ARGV[i + 2] == '-' then
    redis.call('HDEL', key, ARGV[i + 1])
  else
    redis.call('HSET', key, ARGV[i + 1], string.sub(ARGV[i + 2], 2))
  end
end
there = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]
redis.call('SET', KEYS[1], there)
return 'taken ' .. there
)";

constexpr const char* kCount = "return redis.call('HLEN', KEYS[1])";

// Answers "CURSOR NAMES"; the cursor 0 says that this was the last page.
constexpr const char* kNames = R"(
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local names = {}
for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
return page[1] .. ' ' .. table.concat(names)
)";

std::optional<FenceVerdict> verdict_of(std::string_view word) {
  for (FenceVerdict verdict : {FenceVerdict::kTaken, FenceVerdict::kStale, FenceVerdict::kBehind}) {
    if (word == verdict_name(verdict)) return verdict;
  }
  return std::nullopt;
}

}  // namespace

RemoteEngine::RemoteEngine(RemoteStore& store, RemoteEngineOptions options)
    : store_(store),
      options_(std::move(options)),
      raise_(kReadFence, kRaise),
      write_(kReadFence, kWrite),
      look_(kLook),
      count_(kCount),
      names_(kNames) {
  LFARM_CHECK(options_.space.find_first_of("{}") == std::string::npos, "a space without braces");
}

std::string RemoteEngine::key(uint32_t shard, const char* what) const {
  return cat("lfarm:2:{", options_.space, '.', shard, "}:", what);
}

std::string RemoteEngine::key(uint32_t shard, ShardRecord record) const {
  return key(shard, record_name(record));
}

Result<FenceAnswer> RemoteEngine::change(RemoteScript& script, const Fence& fence,
                                         std::span<const std::string> keys,
                                         std::span<const std::string_view> arguments) {
  LFARM_ASSIGN_OR_RETURN(RedisReply reply, store_.evaluate(script, keys, arguments, kAnswerBytesMax,
                                                           options_.replicas));
  std::string_view text = reply.text;
  size_t space = text.find(' ');
  auto verdict = verdict_of(text.substr(0, space));
  auto state = space == std::string_view::npos
                   ? std::nullopt
                   : parse_fence_state(fence.shard, text.substr(space + 1));
  if (reply.kind != Kind::kText || !verdict || !state) {
    return common::corrupt(
        cat("the engine at ", store_.address(), " answers shard ", fence.shard, " with nonsense"));
  }
  return FenceAnswer{*verdict, state->fence, state->sequence};
}

Result<FenceAnswer> RemoteEngine::raise(const Fence& fence) {
  std::string keys[] = {key(fence.shard, "fence")};
  std::string transitions = cat(fence.transitions), incarnation = fence.incarnation.hex();
  std::string_view arguments[] = {transitions, incarnation};
  return change(raise_, fence, keys, arguments);
}

Result<FenceAnswer> RemoteEngine::write(const Fence& fence, uint64_t sequence,
                                        std::span<const ShardChange> changes) {
  LFARM_CHECK(changes.size() <= kChangesMax, "a write of too many changes");
  std::vector<std::string> keys{key(fence.shard, "fence")};
  for (size_t record = 0; record < kShardRecordCount; ++record) {
    keys.push_back(key(fence.shard, static_cast<ShardRecord>(record)));
  }
  std::vector<std::string> words{cat(fence.transitions), fence.incarnation.hex(), cat(sequence)};
  for (const ShardChange& change : changes) {
    words.push_back(cat(static_cast<int>(change.record) + 2));
    words.push_back(change.name.hex());
    words.push_back(change.bytes ? cat('=', *change.bytes) : "-");
  }
  std::vector<std::string_view> arguments(words.begin(), words.end());
  return this->change(write_, fence, keys, arguments);
}

Result<FenceState> RemoteEngine::look(uint32_t shard) {
  std::string keys[] = {key(shard, "fence")};
  LFARM_ASSIGN_OR_RETURN(RedisReply reply, store_.evaluate(look_, keys, {}, kAnswerBytesMax, 0));
  auto state = parse_fence_state(shard, reply.text);
  if (!state) {
    return common::corrupt(
        cat("the fence of shard ", shard, " at ", store_.address(), " is damaged: ", reply.text));
  }
  return *state;
}

Result<std::optional<std::string>> RemoteEngine::read(uint32_t shard, ShardRecord record,
                                                      const Digest& name) {
  return store_.get_field(key(shard, record), name.hex());
}

Result<std::vector<std::optional<std::string>>> RemoteEngine::read_all(
    uint32_t shard, ShardRecord record, std::span<const Digest> names) {
  std::vector<std::string> fields;
  for (const Digest& name : names) fields.push_back(name.hex());
  return store_.get_fields(key(shard, record), fields);
}

Result<uint64_t> RemoteEngine::count(uint32_t shard, ShardRecord record) {
  std::string keys[] = {key(shard, record)};
  LFARM_ASSIGN_OR_RETURN(RedisReply reply, store_.evaluate(count_, keys, {}, kAnswerBytesMax, 0));
  if (reply.kind == Kind::kInteger && reply.integer >= 0) {
    return static_cast<uint64_t>(reply.integer);
  }
  return common::corrupt(cat("the engine at ", store_.address(), " counts nonsense"));
}

Result<NamePage> RemoteEngine::names(uint32_t shard, ShardRecord record, const std::string& from) {
  std::string keys[] = {key(shard, record)};
  std::string count = cat(kNamesAtOnce);
  std::string_view arguments[] = {from.empty() ? std::string_view("0") : std::string_view(from),
                                  count};
  LFARM_ASSIGN_OR_RETURN(RedisReply reply,
                         store_.evaluate(names_, keys, arguments, kNamesBytesMax, 0));
  const std::string_view text = reply.text;
  const size_t space = text.find(' ');
  const std::string_view digits = space == std::string_view::npos ? "" : text.substr(space + 1);
  NamePage page;
  for (size_t at = 0; at < digits.size(); at += kDigestDigits) {
    auto name = Digest::parse(digits.substr(at, kDigestDigits));
    if (!name) break;
    page.names.push_back(*name);
  }
  if (space == 0 || space == std::string_view::npos ||
      page.names.size() * kDigestDigits != digits.size()) {
    return common::corrupt(cat("the engine at ", store_.address(), " names nonsense"));
  }
  if (text.substr(0, space) != "0") page.next = text.substr(0, space);
  return page;
}

}  // namespace cache
