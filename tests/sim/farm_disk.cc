#include "farm_disk.h"

#include <utility>

#include "common/base/hash64.h"

namespace sim {

namespace {
constexpr int64_t kPauseMs = 200;  // between attempts
}  // namespace

uint64_t Record::sum() const {
  uint64_t sum = common::combine64(static_cast<uint64_t>(kind), job);
  sum = common::combine64(sum, candidate);
  sum = common::combine64(sum, static_cast<uint64_t>(verdict.outcome));
  sum = common::combine64(sum, verdict.result);
  return common::combine64(sum, plan ? plan->key : fingerprint.prefix64());
}

void Disk::put(Record record, Done done) {
  record.checksum = record.sum();
  waiting_.push_back({std::move(record), std::move(done)});
  if (writing_.empty()) begin();
}

bool Disk::put_now(Record record) {
  if (fails()) return false;
  record.checksum = record.sum();
  records_.push_back(std::move(record));
  return true;
}

bool Disk::fails() {
  return scene_.now_ms() < full_until_ms_ || scene_.strikes(scene_.faults.failed_write);
}

void Disk::begin() {
  writing_.swap(waiting_);
  attempt(life_, scene_.now_ms() + kRetryMs);
}

void Disk::attempt(uint64_t life, int64_t end_ms) {
  if (life != life_) return;
  int64_t takes_ms = 1 + scene_.below_ms(5);
  if (scene_.strikes(scene_.faults.slow_write)) takes_ms += scene_.below_ms(3'000);
  dooms_ = fails();
  scene_.at(scene_.now_ms() + takes_ms, [this, life, end_ms] {
    if (life != life_) return;
    if (!dooms_) return finish(true);
    if (scene_.now_ms() >= end_ms) return finish(false);
    scene_.at(scene_.now_ms() + kPauseMs, [this, life, end_ms] { attempt(life, end_ms); });
  });
}

void Disk::finish(bool written) {
  std::vector<Entry> group = std::exchange(writing_, {});
  uint64_t life = life_;
  if (written) {
    for (Entry& entry : group) records_.push_back(entry.record);
  }
  for (Entry& entry : group) {
    entry.done(written);
    if (life != life_) return;  // it was killed from within
  }
  if (writing_.empty() && !waiting_.empty()) begin();
}

void Disk::kill() {
  ++life_;
  waiting_.clear();
  std::vector<Entry> group = std::exchange(writing_, {});
  if (dooms_ || group.empty()) return;
  size_t kept = scene_.random.below(group.size() + 1);
  for (size_t i = 0; i < kept; ++i) records_.push_back(group[i].record);
  if (kept == group.size() || scene_.random.chance(0.3)) return;
  Record torn = group[kept].record;
  if (torn.kind == Record::Kind::kResult) {
    torn.candidate = 0;
    torn.verdict.outcome = TaskOutcome::kOk;
    torn.verdict.result += 1;
  } else {
    torn.job += 1'000'000;
  }
  records_.push_back(torn);
  ++scene_.report.torn;
}

}  // namespace sim
