#include "cache/engine/engine_leases.h"

#include <algorithm>
#include <array>

#include "common/base/cat.h"
#include "common/base/incarnation.h"
#include "common/shard/number_text.h"

namespace cache {

using common::cat;
using common::Result;
using common::ShardLease;

namespace {

constexpr size_t kLeaseBytesMax = 2048;
constexpr size_t kFieldCount = 7;

// A line each: the field, a tabulator, the value.
constexpr const char* kRead = R"(
local all = redis.call('HGETALL', KEYS[1])
local lines = {}
for i = 1, #all, 2 do lines[#lines + 1] = all[i] .. '\t' .. all[i + 1] end
return table.concat(lines, '\n')
)";

// Three words a lease: its name, the version that must be there ("": none), and the value, which
// begins with the new version ("": removed). Answers a digit a lease.
constexpr const char* kWrite = R"(
local answer = ''
for i = 1, #ARGV, 3 do
  local there = redis.call('HGET', KEYS[1], ARGV[i]) or '\t'
  if string.match(there, '^([^\t]*)\t') ~= ARGV[i + 1] then
    answer = answer .. '0'
  elseif ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
    answer = answer .. '1'
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
    answer = answer .. '1'
  end
end
return answer
)";

bool is_plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c == '\t' || c == '\n'; });
}

// name, version, holder, transitions, duration_ms, endpoint, public key.
Result<ShardLease> parse_line(std::string_view line) {
  std::array<std::string_view, kFieldCount> fields;
  size_t count = 0;
  for (std::string_view rest = line; count < kFieldCount; ++count) {
    size_t tab = rest.find('\t');
    fields[count] = rest.substr(0, tab);
    rest = tab == std::string_view::npos ? std::string_view() : rest.substr(tab + 1);
    if (tab == std::string_view::npos) {
      ++count;
      break;
    }
  }
  auto transitions = common::parse_number<uint64_t>(fields[3]);
  auto duration_ms = common::parse_number<int64_t>(fields[4]);
  if (count != kFieldCount || !transitions || !duration_ms || fields[1].empty()) {
    return common::corrupt(cat("a lease is damaged: ", line.substr(0, 80)));
  }
  ShardLease lease;
  lease.transitions = *transitions;
  lease.duration_ms = *duration_ms;
  lease.name = fields[0];
  lease.version = fields[1];
  lease.holder = fields[2];
  lease.at = {std::string(fields[5]), std::string(fields[6])};
  return lease;
}

}  // namespace

EngineLeases::EngineLeases(RemoteStore& store, const std::string& space)
    : store_(store), key_(cat("lfarm:2:{", space, "}:leases")), read_(kRead), write_(kWrite) {}

Result<std::vector<ShardLease>> EngineLeases::read() {
  LFARM_ASSIGN_OR_RETURN(RedisReply reply,
                         store_.evaluate(read_, {&key_, 1}, {}, kLeasesMax * kLeaseBytesMax, 0));
  std::vector<ShardLease> leases;
  std::string_view rest = reply.text;
  while (!rest.empty()) {
    size_t end = rest.find('\n');
    LFARM_ASSIGN_OR_RETURN(ShardLease lease, parse_line(rest.substr(0, end)));
    leases.push_back(std::move(lease));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (leases.size() > kLeasesMax) return common::corrupt("there are too many leases");
  }
  return leases;
}

Result<std::vector<std::string>> EngineLeases::write(std::span<const ShardLease> leases) {
  std::vector<std::string> words, versions;
  for (const ShardLease& lease : leases) {
    LFARM_CHECK(is_plain(lease.name) && is_plain(lease.holder) && is_plain(lease.at.endpoint) &&
                    is_plain(lease.at.public_key),
                "a lease of plain words");
    bool is_removed = lease.holder.empty() && lease.transitions == 0;
    versions.push_back(common::Incarnation::draw().hex());
    words.push_back(lease.name);
    words.push_back(lease.version);
    words.push_back(is_removed ? ""
                               : cat(versions.back(), '\t', lease.holder, '\t', lease.transitions,
                                     '\t', lease.duration_ms, '\t', lease.at.endpoint, '\t',
                                     lease.at.public_key));
  }
  if (leases.empty()) return versions;
  std::vector<std::string_view> arguments(words.begin(), words.end());
  LFARM_ASSIGN_OR_RETURN(RedisReply reply,
                         store_.evaluate(write_, {&key_, 1}, arguments, kLeaseBytesMax, 0));
  if (reply.text.size() != leases.size()) return common::corrupt("leases are answered by nonsense");
  for (size_t i = 0; i < leases.size(); ++i) {
    if (reply.text[i] != '1') versions[i].clear();
  }
  return versions;
}

}  // namespace cache
