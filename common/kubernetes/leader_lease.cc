#include "common/kubernetes/leader_lease.h"

#include <utility>

#include "common/base/check.h"

namespace common {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

void LeaderOptions::last(int64_t ms) {
  duration_ms = ms;
  renew_ms = ms * 2 / 3;
  retry_ms = ms * 2 / 15;
}

LeaderLease::LeaderLease(Cluster cluster, LeaderOptions options, const Clock& clock)
    : cluster_(std::move(cluster)), options_(std::move(options)), clock_(clock) {
  LFARM_CHECK(options_.renew_ms < options_.duration_ms, "a leader must give up before it is out");
}

bool LeaderLease::leads() const {
  return is_ours_ && clock_.now_ns() - renewed_ns_ < options_.renew_ms * kNsPerMs;
}

bool LeaderLease::tend(int64_t wall_us) {
  int64_t now_ns = clock_.now_ns();
  if (now_ns >= next_ns_) {
    last_ = attempt(wall_us);
    next_ns_ = now_ns + options_.retry_ms * kNsPerMs;
  }
  return leads();
}

Status LeaderLease::attempt(int64_t wall_us) {
  const int64_t now_ns = clock_.now_ns();
  LFARM_ASSIGN_OR_RETURN(auto read, cluster_.read_lease(options_.lease));
  LeaseRecord record = read.value_or(LeaseRecord{});
  if (seen_ns_ == 0 || record.resource_version != seen_.resource_version) seen_ns_ = now_ns;
  seen_ = record;
  bool is_mine = record.holder == options_.identity;
  if (!is_mine) is_ours_ = false;
  // As long as its holder promised to renew it within, from when its last change was seen.
  bool has_lapsed = now_ns - seen_ns_ >= record.duration_s * 1'000 * kNsPerMs;
  if (!is_mine && !record.holder.empty() && !has_lapsed) return {};
  if (!is_mine) {
    record.acquired_us = wall_us;
    if (read) ++record.transitions;
  }
  record.holder = options_.identity;
  record.duration_s = (options_.duration_ms + 999) / 1'000;
  record.renewed_us = wall_us;
  LFARM_ASSIGN_OR_RETURN(bool is_written, cluster_.write_lease(options_.lease, record));
  if (!is_written) return {};  // somebody else was faster: the next attempt sees who
  is_ours_ = true;
  renewed_ns_ = now_ns;
  seen_.holder = record.holder;
  return {};
}

void LeaderLease::release(int64_t wall_us) {
  if (!is_ours_) return;
  is_ours_ = false;
  auto read = cluster_.read_lease(options_.lease);
  if (!read.ok() || !read.value() || read.value()->holder != options_.identity) return;
  LeaseRecord record = *read.value();
  record.holder.clear();
  record.renewed_us = wall_us;
  record.duration_s = 1;
  auto written = cluster_.write_lease(options_.lease, record);
  if (written.ok()) seen_.holder.clear();
}

}  // namespace common
