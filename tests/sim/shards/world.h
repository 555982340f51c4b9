// Simulated coordinators that hold shards by leases on a simulated server, under virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "coordinator/shards/shard_table.h"
#include "tests/sim/shards/server.h"

namespace sim {

struct ShardFaults {
  double lost = 0;      // of messages: the request, or the answer to it
  double late = 0;      // of requests: they arrive after their sender has given up
  double crash = 0;     // a second, of any coordinator; its disk stays
  double pause = 0;     // a second, of any coordinator, for up to 40 s
  double leave = 0;     // a second, of any coordinator
  double outage = 0;    // a second, of the server, for up to 30 s
  double slow = 0;      // a second, of the server, for up to 30 s
  double restored = 0;  // a second: the server is set back, or comes back empty
  bool flawed = false;  // a server that compares no fences
  int64_t lease_ms = 3'000;
  // That a request waits for its answer, and between a coordinator's looks at the leases.
  int64_t patience_ms() const { return lease_ms * 2 / 15; }
};

struct ShardReport {
  std::string failure;  // empty: every rule was kept
  uint64_t acknowledged = 0, repeated = 0, stale = 0, behind = 0, taken_over = 0, accidents = 0;
  uint64_t put_back = 0, revoked = 0, served = 0, lost_with_the_server = 0;
};

class ShardsWorld {
 public:
  ShardsWorld(uint64_t seed, const ShardFaults& faults);
  // Five minutes of faults, then some of none, after which everything must be in order.
  ShardReport run();

 private:
  // A shard that a coordinator serves.
  struct Served {
    common::Fence fence;
    uint64_t sequence = 0;  // of the last change that was sent
    bool is_writing = false;
    std::vector<uint32_t> to_put_back;  // names that the server lacks
  };
  struct Coordinator {
    std::string identity;
    std::optional<coordinator::ShardTable> table;  // empty: the process is down
    uint64_t life = 0;                             // of its process
    int64_t paused_until_ms = 0;
    double clock_rate = 1;
    bool is_leaving = false;
    std::map<uint32_t, Served> served;
    // On its disk.
    std::map<uint32_t, Records> records;
    std::set<uint32_t> revoked;
  };
  // What was promised to clients.
  struct Promise {
    uint64_t value = 0;
    int64_t when_ms = 0;  // the server took it
  };
  struct Event {
    int64_t when_ms;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const {
      return std::pair(when_ms, order) > std::pair(other.when_ms, other.order);
    }
  };

  void after(int64_t ms, std::function<void()> act);
  // In the process's own time: later when it is paused, never when it has died.
  void in_process(size_t k, int64_t ms, std::function<void(Coordinator&)> act);
  // `request` is carried out on the server, and its answer comes, or nothing of it does.
  template <class Answer>
  void ask(size_t k, std::function<Answer()> request,
           std::function<void(Coordinator&, std::optional<Answer>)> done);
  void start(size_t k);
  void turn(size_t k);
  void write_leases(size_t k);
  void tend_shards(size_t k);
  void put_back(size_t k, uint32_t shard);
  void probe(size_t k, uint32_t shard);
  void take_over(size_t k, const common::Fence& fence);
  void write(size_t k, uint32_t shard, uint32_t name, uint64_t value,
             std::function<void()> on_taken);
  void request(size_t k);
  void publish(size_t k, uint32_t name);
  void revoke(size_t k, uint32_t name);
  void pull(size_t k, uint32_t name);
  void misfortune();
  void set_back();
  void check_holders();
  void check_the_end();
  void fail(const std::string& why);
  int64_t own_ns(const Coordinator& c) const;
  bool serves(const Coordinator& c, uint32_t shard) const;
  static uint32_t shard_of(uint32_t name) { return name % common::kShardCount; }

  common::Random random_;
  ShardFaults faults_;
  ShardsServer server_;
  std::vector<ShardsServer::Data> copies_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::priority_queue<Event> events_;
  int64_t now_ms_ = 0;
  uint64_t order_ = 0, values_ = 0;
  int64_t down_until_ms_ = 0, slow_until_ms_ = 0, accident_ms_ = -1'000'000;
  std::map<uint32_t, Promise> promised_;
  std::map<uint64_t, int64_t> landed_;   // value -> when the server took it first
  std::map<uint32_t, int64_t> revoked_;  // name -> when it was promised
  ShardReport report_;
};

}  // namespace sim
