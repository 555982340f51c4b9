// A disk under virtual time that writes as coordinator/service/loop/commits.h does: in groups, and
// again for a while when it fails. It can be slow, fail, be full, and keep half of a group when the
// process that writes is killed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "farm_scene.h"

namespace sim {

struct Record {
  enum class Kind : uint8_t { kJob, kResult, kEnd, kRemoval, kBan, kRevoke };
  Kind kind = Kind::kJob;
  JobId job = 0;
  std::shared_ptr<const JobPlan> plan;  // kJob
  uint64_t candidate = 0;               // kResult; kEnd and kRevoke: the plan's number
  Verdict verdict;
  common::Digest fingerprint;  // kBan
  uint64_t checksum = 0;       // set by the disk

  uint64_t sum() const;
  bool is_whole() const { return checksum == sum(); }
};

class Disk {
 public:
  using Done = std::function<void(bool written)>;
  explicit Disk(Scene& scene) : scene_(scene) {}

  // `done` comes later, in the order of put(), unless the process is killed.
  void put(Record record, Done done);
  // Waits for the disk; false when it fails.
  bool put_now(Record record);
  void fill_until(int64_t ms) { full_until_ms_ = ms; }
  // The process dies. Of what was being written, some records may be there, the last one torn.
  void kill();
  const std::vector<Record>& records() const { return records_; }
  bool idle() const { return waiting_.empty() && writing_.empty(); }

  // Longer than this it does not try, and says so.
  static constexpr int64_t kRetryMs = 5'000;

 private:
  struct Entry {
    Record record;
    Done done;
  };
  void begin();
  void attempt(uint64_t life, int64_t end_ms);
  void finish(bool written);
  bool fails();

  Scene& scene_;
  std::vector<Record> records_;
  std::vector<Entry> waiting_;
  std::vector<Entry> writing_;
  bool dooms_ = false;  // the attempt under way is going to fail
  int64_t full_until_ms_ = 0;
  uint64_t life_ = 0;  // grows with each kill
};

}  // namespace sim
