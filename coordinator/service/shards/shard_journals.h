// Journals of jobs in the engine, so that the coordinator that takes a shard over goes on with its
// jobs. They follow the journals on this coordinator's disk by a fraction of a second.
#pragma once

#include <bitset>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/engine/shard_engine.h"
#include "cache/store/store.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/shard/fence.h"
#include "coordinator/service/shards/shard_keeper.h"

namespace coordinator::service {

// A job's journal as it lies in the engine: segments of records under one id, numbered from 0. A
// journal is there as long as its segment 0 is.
struct ShardJournal {
  common::Digest id;      // of no other job; its last 8 bytes are zero, and hold a segment's number
  uint64_t segments = 0;  // the number that the next one takes
  std::vector<cache::JobRecord> records;
};

struct JournalCounts {
  uint64_t segments = 0;  // that the engine took
  uint64_t bytes = 0;
  uint64_t dropped = 0;  // journals that another coordinator took with their shard
};

// Thread-safe; borrows what it is given. Only read(), put() and remove() wait. Jobs have the names
// of their journals in the store. Journals of several shards are written at the same time, those of
// one shard in turn.
class ShardJournals {
 public:
  ShardJournals(ShardKeeper& keeper, cache::ShardEngine& engine);
  // Drops what is not written.
  ~ShardJournals();
  ShardJournals(const ShardJournals&) = delete;
  ShardJournals& operator=(const ShardJournals&) = delete;

  // The job's records go to the engine from now on: as a new journal, or behind what the
  // coordinator before left there, whose records are passed over when they come to this
  // coordinator's disk.
  void begin(const std::string& job, uint32_t shard);
  void go_on(const std::string& job, uint32_t shard, const ShardJournal& there);
  // Records that are on this coordinator's disk; those of jobs that have not begun are passed over.
  void written(std::span<const cache::Changes> changes);
  // The job is over: its journal is removed. Nothing happens when the job was left.
  void end(const std::string& job);
  // Another coordinator goes on with the job. What is written until left() goes to the engine.
  void leave(const std::string& job);
  void left(const std::string& job);
  // Whether something of the shard is on its way.
  bool is_behind(uint32_t shard) const;

  // All journals of a shard that this coordinator holds. What is left of journals that are being
  // removed is removed.
  common::Result<std::vector<ShardJournal>> read(uint32_t shard);
  // Writes all records of a journal, in the place of what is there under its id. kUnsupported when
  // one of them is too large for the engine, which then has none.
  common::Status put(uint32_t shard, const ShardJournal& journal);
  // The digest with the last 8 bytes zero, as an id has them.
  static common::Digest as_id(const common::Digest& digest);
  // Removes one that nobody goes on with.
  void remove(uint32_t shard, const ShardJournal& journal);

  JournalCounts counts() const;

 private:
  enum class Fate : uint8_t { kOpen, kEnds, kLeaves };
  using Instant = std::chrono::steady_clock::time_point;
  struct Followed {
    common::Fence fence;  // that the shard had when the job came: no other writes its journal
    common::Digest id;
    uint64_t segments = 0;
    uint64_t removed = 0;  // of these, once the job has ended
    uint64_t first = 0;    // records before this one are in the engine
    std::vector<cache::JobRecord> waiting;
    Instant due;  // not before, unless the job has ended or was left
    Fate fate = Fate::kOpen;
    bool is_left = false;
  };
  // One write: a segment, or a number of segments that are removed.
  struct Work {
    std::string job;
    common::Fence fence;
    std::string segment;
    std::vector<cache::ShardChange> changes;  // a segment's bytes are those above
  };
  void run();
  bool has_work() const;
  static void give_up(Followed& followed);
  std::optional<Work> next_work();
  static Work take_segment(const std::string& job, Followed& followed);
  void settle(const Work& work, const common::Status& written);
  Followed* follow(const std::string& job, uint32_t shard);
  void remove_segments(uint32_t shard, const common::Digest& id, std::span<const uint64_t> numbers);

  ShardKeeper& keeper_;
  cache::ShardEngine& engine_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::map<std::string, Followed> jobs_;      // by the names of their journals
  std::bitset<common::kShardCount> writing_;  // shards that are written to now
  JournalCounts counts_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// A segment's bytes, and back; kCorrupt when they are none.
std::string encode_segment(std::span<const cache::JobRecord> records);
common::Result<std::vector<cache::JobRecord>> decode_segment(std::string_view bytes);

}  // namespace coordinator::service
