// What a farm can say of one job, written down once as it happens: how long its stages took, for
// who waits for the plan; the course of its search, for the page; and its timeline, for its trace.
#pragma once

#include <string>
#include <vector>

#include "cache/store/store.h"
#include "coordinator/service/journal/job_course.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/loop/stage_clock.h"
#include "coordinator/service/observe/timeline.h"
#include "coordinator/service/workers/dispatcher.h"

namespace coordinator::service {

// All times are the injected clock's. Not thread-safe.
class JobRecord {
 public:
  // Of a job that begins now. `rows_max`: see Timeline.
  JobRecord(TimelineHead head, size_t rows_max, int64_t now_ns);
  JobRecord(const JobRecord&) = delete;
  JobRecord& operator=(const JobRecord&) = delete;

  // Goes on behind what an earlier coordinator left. Before anything else.
  void resumed(cache::Store& store, const std::vector<uint64_t>& segments);
  // The job's stage is this one from now on; nothing happens when it was already.
  void enter(const std::string& stage, int64_t now_ns) { stages_.enter(stage, now_ns); }
  // Its preparation, whose parts are known once it is over.
  void begin_preparing(int64_t now_ns);
  void prepared(const std::vector<StageTime>& parts, int64_t now_ns);
  // After a round of the search, which gave `candidates` and now stands at `status`.
  void proposed(const std::vector<Proposal>& candidates, const SearchStatus& status,
                int64_t now_ns);
  // What the round took, when it learned or gave something.
  void round(TimelineRound round);
  // A candidate's result is on the disk.
  void judged(const TaskDone& done, int64_t now_ns);
  void has_plan(const std::string& id) { course_.has_plan(id); }
  // The job is over, in these words for the page; the first end counts.
  void ended(JobEnding how, const std::string& message) { course_.ended(how, message); }
  // It does nothing more, in these words for the trace.
  void close(const std::string& how, int64_t now_ns);
  // Its present stage is over: what stage_times() tells is whole.
  void end_stage(int64_t now_ns) { stages_.end(now_ns); }

  const std::vector<common::StageTime>& stage_times() const { return stages_.times(); }
  const JobCourse& course() const { return course_; }
  // Of the timeline: whether there are rows to write, what writes them, and where all of them are.
  bool has_news() const { return timeline_.has_news(); }
  Commits::Write take() { return timeline_.take(); }
  std::vector<uint64_t> segments() const { return timeline_.segments(); }

 private:
  int64_t since_begin_ms(int64_t now_ns) const { return (now_ns - began_ns_) / 1'000'000; }

  const int64_t began_ns_;
  int64_t preparing_ns_ = 0;  // since when
  Timeline timeline_;
  StageClock stages_;
  JobCourse course_;
};

}  // namespace coordinator::service
