// scale --engine ADDRESS --plans N: what the engine of several coordinators answers with, and how
// soon, when its shards hold that many small plans. The server should hold nothing else.
#include "tests/bench/farm/scale_engine.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "cache/engine/remote_engine.h"
#include "cache/remote/redis_connection.h"
#include "cache/remote/remote_store.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/shard/shard.h"
#include "tests/bench/farm/timed.h"

namespace bench {
namespace {

using cache::ShardRecord;
using common::Digest;
using common::digest_of;

constexpr int64_t kPatienceMs = 60'000;

Digest plan_name(int64_t k) { return digest_of(common::cat("plan ", k)); }
uint32_t shard_of(int64_t k) { return static_cast<uint32_t>(k % common::kShardCount); }

// Holds every shard as a coordinator does, and writes by its fences.
class Holder {
 public:
  Holder(cache::ShardEngine& engine, size_t plan_bytes) : engine_(engine), bytes_(plan_bytes, 'p') {
    for (uint32_t shard = 0; shard < common::kShardCount; ++shard) {
      fences_.push_back({shard, 1, common::Incarnation::draw()});
      check(must(engine_.raise(fences_.back())));
    }
    sequences_.resize(common::kShardCount);
  }
  void fill(int64_t plans) {
    constexpr auto kAtATime = static_cast<int64_t>(cache::ShardEngine::kChangesMax);
    constexpr int64_t kStep = common::kShardCount;
    for (int64_t shard = 0; shard < kStep; ++shard) {
      for (int64_t first = shard; first < plans; first += kStep * kAtATime) {
        write(first, std::min(plans, first + kStep * kAtATime));
      }
    }
  }
  // Plans `first`, `first` + 64, ... before `end`, all of one shard.
  void write(int64_t first, int64_t end) {
    common::Random random(static_cast<uint64_t>(first));
    std::vector<std::string> bytes;
    for (int64_t k = first; k < end; k += common::kShardCount) {
      std::string& plan = bytes.emplace_back(bytes_);
      for (char& byte : plan) byte = static_cast<char>(random.next());
    }
    std::vector<cache::ShardChange> changes;
    int64_t k = first;
    for (const std::string& plan : bytes) {
      changes.push_back({ShardRecord::kPlan, plan_name(k), plan});
      k += common::kShardCount;
    }
    uint32_t shard = shard_of(first);
    check(must(engine_.write(fences_[shard], ++sequences_[shard], changes)));
  }

 private:
  static void check(const cache::FenceAnswer& answer) {
    if (answer.verdict == cache::FenceVerdict::kTaken) return;
    throw std::runtime_error("the engine has been used before: give it an empty server");
  }
  cache::ShardEngine& engine_;
  const std::string bytes_;
  std::vector<common::Fence> fences_;
  std::vector<uint64_t> sequences_;
};

// What the server says of its memory, in bytes.
int64_t used_memory(const cache::RemoteAddress& address) {
  int64_t deadline_ns = common::SteadyClock().now_ns() + kPatienceMs * 1'000'000;
  auto connection = must(cache::RedisConnection::open(address, "", deadline_ns));
  const cache::RedisCommand command{"INFO", "memory"};
  std::string text = must(connection->ask({&command, 1}, size_t{1} << 20, deadline_ns))[0].text;
  size_t at = text.find("used_memory:");
  return at == std::string::npos ? 0 : std::stoll(text.substr(at + 12));
}

}  // namespace

int run_scale_engine(const std::string& address, int64_t plans, size_t plan_bytes) {
  cache::RemoteOptions options;
  options.address = must(cache::parse_remote_address(address));
  options.answer_ms = options.transfer_ms = kPatienceMs;
  cache::RemoteStore store(options);
  cache::RemoteEngine engine(store, {"scale", 0});
  common::SteadyClock clock;
  int64_t start_ns = clock.now_ns();
  Holder holder(engine, plan_bytes);
  holder.fill(plans);
  nlohmann::ordered_json line;
  line["plans"] = plans;
  line["filled_s"] = static_cast<double>(clock.now_ns() - start_ns) * 1e-9;
  line["server_bytes"] = used_memory(options.address);
  common::Random random(7);
  line["lookup"] = timed(2000, [&](int) {
    auto k = static_cast<int64_t>(random.below(static_cast<uint64_t>(plans)));
    auto found = must(engine.read(shard_of(k), ShardRecord::kPlan, plan_name(k)));
    if (!found) throw std::runtime_error("a plan is not there");
  });
  line["write"] = timed(2000, [&](int k) { holder.write(plans + k, plans + k + 1); });
  line["names"] = timed(static_cast<int>(common::kShardCount), [&](int shard) {
    must(engine.names(static_cast<uint32_t>(shard), ShardRecord::kPlan));
  });
  line["look"] = timed(2000, [&](int k) { must(engine.look(shard_of(k))); });
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace bench
