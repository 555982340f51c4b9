// What a job's time went on, as it happens: the latest rows on the disk, apart from the job's
// journal, so that a trace outlives a failed job and a restart, and a replay never reads it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/digest.h"
#include "common/wire/messages.h"
#include "common/wire/task.h"
#include "coordinator/farm/types.h"
#include "coordinator/service/loop/commits.h"

namespace coordinator::service {

// Of one task: later leases take the place of the latest kept one.
inline constexpr size_t kTimelineLeasesMax = 8;

// One lease of a task. `end`: "result", or why the task left the worker.
struct TimelineLease {
  std::string worker;
  int64_t sent_ns = 0;
  int64_t ended_ns = 0;
  std::string end;
  friend bool operator==(const TimelineLease&, const TimelineLease&) = default;
};

// The kernel of a candidate that took longest, and its schedule: what other schedules of the same
// kernel took is worth comparing.
struct TimelineKernel {
  std::string kernel;    // equal for kernels that differ in their schedules alone; empty: not known
  std::string schedule;  // "mr=6,nr=16", of all parameters
  uint64_t ns = 0;
  friend bool operator==(const TimelineKernel&, const TimelineKernel&) = default;
};

// A task while it is open: filled in by the dispatcher, on its clock.
struct TaskTimes {
  uint64_t task = 0;  // its id in leases and logs
  int64_t queued_ns = 0;
  int64_t ended_ns = 0;  // when its verdict was there
  std::vector<TimelineLease> leases;
};

// All times of rows are nanoseconds since 1970.
struct TimelineTask {
  uint64_t task = 0;
  uint64_t candidate = 0;
  common::TaskKind kind{};
  common::TaskOutcome outcome{};
  int region = -1;  // that the candidate computes; -1: the whole graph
  std::string origin;
  common::Digest fingerprint;
  uint64_t measured_ns = 0;  // 0: not right, or not measured
  int64_t queued_ns = 0, ended_ns = 0;
  int64_t kept_ns = 0;  // when the result was on the disk and the search could learn of it
  std::vector<TimelineLease> leases;
  std::vector<common::TaskSpan> spans;  // of the worker of the last lease
  TimelineKernel slowest;               // empty also in rows of versions that did not write it
  friend bool operator==(const TimelineTask&, const TimelineTask&) = default;
};

// A stage of the job, or a part of its preparation.
struct TimelineStage {
  std::string stage;
  bool is_part = false;
  int64_t from_ns = 0, to_ns = 0;
  friend bool operator==(const TimelineStage&, const TimelineStage&) = default;
};

// One round of the search, and what it knew at the end of it.
struct TimelineRound {
  int64_t from_ns = 0, to_ns = 0;
  uint64_t learned = 0;   // results that it was told
  uint64_t proposed = 0;  // candidates that it gave
  uint64_t completed = 0, best_ns = 0, in_flight = 0;
  uint64_t expected_ns = 0;  // 0 also in rows of versions that did not write it
  friend bool operator==(const TimelineRound&, const TimelineRound&) = default;
};

struct TimelineMark {
  int64_t at_ns = 0;
  std::string text;
  friend bool operator==(const TimelineMark&, const TimelineMark&) = default;
};

using TimelineRow = std::variant<TimelineTask, TimelineStage, TimelineRound, TimelineMark>;

// Whose job it is and what it is for.
struct TimelineHead {
  farm::JobId job = 0;
  std::string tenant, graph, target, policy;
  uint64_t segment_rows = 0;  // set by Timeline
  friend bool operator==(const TimelineHead&, const TimelineHead&) = default;
};

// Rows lie in segments, of which the latest stay: records are never written over.
inline constexpr uint64_t kTimelineSegments = 4;

// The segments of each job's timeline that are there, in their order.
using TimelineSegments = std::map<farm::JobId, std::vector<uint64_t>>;

// Not thread-safe.
class Timeline {
 public:
  // Keeps between three quarters and all of the latest `rows_max` rows (rounded to a multiple of
  // kTimelineSegments; 0: none). `wall_ns`: the wall clock at `clock_ns` of the clock that rows are
  // given in.
  Timeline(TimelineHead head, size_t rows_max, int64_t wall_ns, int64_t clock_ns);

  // Goes on behind what an earlier coordinator left. Before the first row.
  void go_on(cache::Store& store, const std::vector<uint64_t>& segments);
  // Of the injected clock. Rows are given in wall time.
  int64_t wall(int64_t clock_ns) const { return clock_ns + offset_ns_; }
  void add(TimelineRow row);
  void stage(const std::string& stage, int64_t from_clock_ns, int64_t to_clock_ns,
             bool is_part = false);
  void mark(int64_t clock_ns, std::string text);
  bool has_news() const { return !fresh_.empty(); }
  // What writes the rows since the last call.
  Commits::Write take();
  // Those that are on the disk once all has been written.
  std::vector<uint64_t> segments() const;

 private:
  TimelineHead head_;
  int64_t offset_ns_;
  uint64_t next_ = 0;  // the number that the next row takes
  std::vector<std::pair<uint64_t, TimelineRow>> fresh_;
};

struct StoredTimeline {
  TimelineHead head;
  std::vector<TimelineRow> rows;  // the oldest first
  uint64_t dropped = 0;           // rows that gave way to later ones
  uint64_t damaged = 0;
};

// kInvalidInput when there is none, kCorrupt when nobody knows whose it is. Damaged rows are left
// out and counted.
common::Result<StoredTimeline> read_timeline(cache::Store& store, farm::JobId job);
common::Result<TimelineSegments> list_timelines(cache::Store& store);
void remove_timeline(cache::Changes& changes, farm::JobId job,
                     const std::vector<uint64_t>& segments);

// A row as it lies on the disk, and back; empty when it is damaged.
std::string encode_row(const TimelineRow& row);
std::optional<TimelineRow> decode_row(std::string_view bytes);

}  // namespace coordinator::service
