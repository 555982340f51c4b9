#include "coordinator/service/shards/shard_journals.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "cache/engine/name_walk.h"
#include "cache/remote/remote_store.h"
#include "cache/store/records.h"
#include "common/base/cat.h"
#include "common/base/incarnation.h"
#include "common/base/log.h"

namespace coordinator::service {

using cache::JobRecord;
using cache::ShardChange;
using cache::ShardRecord;
using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

// Between writes for one job: what a takeover loses at most of its measurements.
constexpr std::chrono::milliseconds kPause{200};
// Of records in one segment; a record that is larger by itself has one of its own.
constexpr size_t kSegmentBytes = size_t{1} << 20;
constexpr size_t kRecordBytesMax = cache::RemoteStore::kRecordBytesMax - kSegmentBytes;
constexpr size_t kIdBytes = sizeof(Digest) - 8;
// Writes at a time, each of another shard: a shard whose write is repeated takes one of them for as
// long as the keeper repeats it.
constexpr size_t kWriters = 4;

Digest draw_id() {
  Digest id;
  common::Incarnation one = common::Incarnation::draw(), other = common::Incarnation::draw();
  std::memcpy(id.bytes.data(), &one, 16);
  std::memcpy(id.bytes.data() + 16, &other.low, 8);
  return id;
}

Digest name_of(Digest id, uint64_t segment) {
  for (size_t byte = 0; byte < 8; ++byte) {
    id.bytes[kIdBytes + byte] = static_cast<std::byte>(segment >> (8 * (7 - byte)));
  }
  return id;
}

uint64_t segment_of(const Digest& name) {
  uint64_t segment = 0;
  for (size_t byte = 0; byte < 8; ++byte) {
    segment = segment << 8 | static_cast<uint64_t>(name.bytes[kIdBytes + byte]);
  }
  return segment;
}

std::vector<ShardChange> removals(const Digest& id, uint64_t begin, uint64_t end) {
  std::vector<ShardChange> changes;
  for (; begin < end && changes.size() < cache::ShardEngine::kChangesMax; ++begin) {
    changes.push_back({ShardRecord::kJob, name_of(id, begin), std::nullopt});
  }
  return changes;
}

// At least one, where there are any.
size_t records_in_segment(std::span<const JobRecord> records) {
  size_t count = 0;
  for (size_t bytes = 0; count < records.size() && bytes < kSegmentBytes; ++count) {
    bytes += records[count].bytes.size();
  }
  // One that is large goes alone.
  if (count > 1 && records[count - 1].bytes.size() >= kSegmentBytes) --count;
  return count;
}

}  // namespace

std::string encode_segment(std::span<const JobRecord> records) {
  std::string bytes;
  for (const JobRecord& record : records) {
    cache::append_u64(bytes, record.sequence);
    cache::append_u64(bytes, record.bytes.size());
    bytes += record.bytes;
  }
  return bytes;
}

Result<std::vector<JobRecord>> decode_segment(std::string_view bytes) {
  std::vector<JobRecord> records;
  cache::FieldReader reader(bytes);
  while (reader.ok() && !reader.rest().empty()) {
    uint64_t sequence = reader.u64();
    uint64_t size = reader.u64();
    records.push_back({sequence, std::string(reader.take(size))});
  }
  if (!reader.ok()) return common::corrupt("a segment of a job's journal is cut short");
  return records;
}

ShardJournals::ShardJournals(ShardKeeper& keeper, cache::ShardEngine& engine)
    : keeper_(keeper), engine_(engine) {
  for (size_t k = 0; k < kWriters; ++k) threads_.emplace_back([this] { run(); });
}

ShardJournals::~ShardJournals() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// ---- What happens to jobs ----------------------------------------------------------------------

// Null when the shard is another coordinator's, which makes the job anew.
ShardJournals::Followed* ShardJournals::follow(const std::string& job, uint32_t shard) {
  auto fence = keeper_.holds(shard);
  if (!fence) return nullptr;
  Followed& followed = jobs_[job] = {};
  followed.fence = *fence;
  return &followed;
}

void ShardJournals::begin(const std::string& job, uint32_t shard) {
  std::lock_guard lock(mutex_);
  if (Followed* followed = follow(job, shard)) followed->id = draw_id();
}

void ShardJournals::go_on(const std::string& job, uint32_t shard, const ShardJournal& there) {
  std::lock_guard lock(mutex_);
  Followed* followed = follow(job, shard);
  if (followed == nullptr) return;
  followed->id = there.id;
  followed->segments = there.segments;
  followed->first = there.records.empty() ? 0 : there.records.back().sequence + 1;
}

void ShardJournals::written(std::span<const cache::Changes> changes) {
  bool has_work = false;
  {
    std::lock_guard lock(mutex_);
    for (const cache::Changes& group : changes) {
      for (const auto& [job, record] : group.records) {
        auto found = jobs_.find(job);
        if (found == jobs_.end() || record.sequence < found->second.first) continue;
        if (found->second.fate == Fate::kEnds) continue;
        if (record.bytes.size() > kRecordBytesMax) {
          common::log_warning(cat("a record of ", job,
                                  " is too large for the engine: whoever takes ",
                                  "its shard over begins anew"));
          give_up(found->second);
          continue;
        }
        has_work = has_work || found->second.waiting.empty();
        found->second.waiting.push_back(record);
      }
    }
  }
  if (has_work) wake_.notify_one();
}

void ShardJournals::give_up(Followed& followed) {
  followed.fate = Fate::kEnds;
  followed.waiting.clear();
}

void ShardJournals::end(const std::string& job) {
  {
    std::lock_guard lock(mutex_);
    auto found = jobs_.find(job);
    if (found == jobs_.end() || found->second.fate == Fate::kLeaves) return;
    give_up(found->second);
  }
  wake_.notify_one();
}

void ShardJournals::leave(const std::string& job) {
  std::lock_guard lock(mutex_);
  auto found = jobs_.find(job);
  if (found != jobs_.end() && found->second.fate == Fate::kOpen) {
    found->second.fate = Fate::kLeaves;
  }
}

void ShardJournals::left(const std::string& job) {
  {
    std::lock_guard lock(mutex_);
    auto found = jobs_.find(job);
    if (found == jobs_.end()) return;
    found->second.is_left = true;
  }
  wake_.notify_one();
}

bool ShardJournals::is_behind(uint32_t shard) const {
  std::lock_guard lock(mutex_);
  return writing_[shard] || std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
           const Followed& followed = job.second;
           bool is_open = followed.fate == Fate::kOpen && followed.waiting.empty();
           return followed.fence.shard == shard && !is_open;
         });
}

JournalCounts ShardJournals::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

// ---- Writing -----------------------------------------------------------------------------------

void ShardJournals::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (auto work = next_work()) {
      if (!work->segment.empty()) work->changes.front().bytes = work->segment;
      const uint32_t shard = work->fence.shard;
      writing_.set(shard);
      lock.unlock();
      Status written = keeper_.write_under(work->fence, work->changes);
      lock.lock();
      settle(*work, written);
      writing_.reset(shard);
    } else if (has_work()) {
      wake_.wait_for(lock, kPause);
    } else {
      wake_.wait(lock);
    }
  }
}

bool ShardJournals::has_work() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const auto& job) {
    const Followed& followed = job.second;
    return !followed.waiting.empty() || followed.fate == Fate::kEnds || followed.is_left;
  });
}

std::optional<ShardJournals::Work> ShardJournals::next_work() {
  const Instant now = std::chrono::steady_clock::now();
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    Followed& followed = it->second;
    // What is under way decides what comes next.
    if (writing_[followed.fence.shard]) {
      ++it;
      continue;
    }
    bool is_over = (followed.fate == Fate::kEnds && followed.removed == followed.segments) ||
                   (followed.is_left && followed.waiting.empty());
    if (is_over) {
      it = jobs_.erase(it);
      continue;
    }
    if (followed.fate == Fate::kEnds) {
      return Work{it->first,
                  followed.fence,
                  {},
                  removals(followed.id, followed.removed, followed.segments)};
    }
    bool is_due = followed.is_left || now >= followed.due;
    if (!followed.waiting.empty() && is_due) return take_segment(it->first, followed);
    ++it;
  }
  return std::nullopt;
}

ShardJournals::Work ShardJournals::take_segment(const std::string& job, Followed& followed) {
  auto end =
      followed.waiting.begin() + static_cast<ptrdiff_t>(records_in_segment(followed.waiting));
  Work work{job, followed.fence, encode_segment({followed.waiting.begin(), end}), {}};
  followed.waiting.erase(followed.waiting.begin(), end);
  work.changes.push_back(
      {ShardRecord::kJob, name_of(followed.id, followed.segments), std::nullopt});
  return work;
}

void ShardJournals::settle(const Work& work, const Status& written) {
  auto found = jobs_.find(work.job);
  if (found == jobs_.end()) return;
  if (!written.ok()) {
    counts_.dropped += found->second.fate == Fate::kOpen ? 1 : 0;
    common::log_info(cat("the journal of ", work.job, " stays behind: ", written.error().message));
    jobs_.erase(found);
    return;
  }
  if (work.segment.empty()) {
    found->second.removed += work.changes.size();
    return;
  }
  ++found->second.segments;
  // What has come meanwhile is more than one segment takes, or waits for others.
  if (found->second.waiting.empty()) {
    found->second.due = std::chrono::steady_clock::now() + kPause;
  }
  ++counts_.segments;
  counts_.bytes += work.segment.size();
}

Digest ShardJournals::as_id(const Digest& digest) { return name_of(digest, 0); }

Status ShardJournals::put(uint32_t shard, const ShardJournal& journal) {
  for (const JobRecord& record : journal.records) {
    if (record.bytes.size() <= kRecordBytesMax) continue;
    return common::unsupported("a record of a journal is too large for the engine");
  }
  std::span<const JobRecord> rest(journal.records);
  for (uint64_t segment = 0; !rest.empty(); ++segment) {
    size_t count = records_in_segment(rest);
    std::string bytes = encode_segment(rest.first(count));
    ShardChange change{ShardRecord::kJob, name_of(journal.id, segment), bytes};
    LFARM_RETURN_IF_ERROR(keeper_.write(shard, {&change, 1}));
    rest = rest.subspan(count);
  }
  return {};
}

// ---- Reading -----------------------------------------------------------------------------------

Result<std::vector<ShardJournal>> ShardJournals::read(uint32_t shard) {
  LFARM_ASSIGN_OR_RETURN(std::vector<Digest> names,
                         cache::all_names(engine_, shard, ShardRecord::kJob));
  std::map<Digest, std::vector<uint64_t>> segments;
  for (const Digest& name : names) segments[name_of(name, 0)].push_back(segment_of(name));
  std::vector<ShardJournal> journals;
  for (auto& [id, numbers] : segments) {
    std::sort(numbers.begin(), numbers.end());
    ShardJournal journal{id, 0, {}};
    Status whole;
    for (uint64_t number : numbers) {
      if (number != journal.segments) break;
      LFARM_ASSIGN_OR_RETURN(auto bytes,
                             engine_.read(shard, ShardRecord::kJob, name_of(id, number)));
      if (!bytes) break;
      auto records = decode_segment(*bytes);
      if (!records.ok()) {
        whole = records.error();
        break;
      }
      ++journal.segments;
      std::move(records->begin(), records->end(), std::back_inserter(journal.records));
    }
    if (journal.segments == numbers.size() && whole.ok()) {
      journals.push_back(std::move(journal));
      continue;
    }
    if (!whole.ok()) common::log_warning(cat("a job is given up: ", whole.error().message));
    remove_segments(shard, id, numbers);
  }
  return journals;
}

void ShardJournals::remove(uint32_t shard, const ShardJournal& journal) {
  std::vector<uint64_t> numbers(journal.segments);
  std::iota(numbers.begin(), numbers.end(), uint64_t{0});
  remove_segments(shard, journal.id, numbers);
}

void ShardJournals::remove_segments(uint32_t shard, const Digest& id,
                                    std::span<const uint64_t> numbers) {
  while (!numbers.empty()) {
    size_t count = std::min(numbers.size(), cache::ShardEngine::kChangesMax);
    std::vector<ShardChange> changes;
    for (uint64_t number : numbers.first(count)) {
      changes.push_back({ShardRecord::kJob, name_of(id, number), std::nullopt});
    }
    if (!keeper_.write(shard, changes).ok()) return;
    numbers = numbers.subspan(count);
  }
}

}  // namespace coordinator::service
