// The journal of one job while it is open: each thing that is noted is a record with a number of
// its own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/loop/commits.h"
#include "coordinator/service/workers/dispatcher.h"

namespace coordinator::service {

// Not thread-safe. What is noted first reaches the disk first. Where nobody is told whether a note
// is on the disk, a log line says that it is not.
class JobNotes {
 public:
  JobNotes(Commits& commits, farm::JobId job) : commits_(commits), job_(job) {}

  // Behind what an earlier coordinator noted.
  void go_on_at(uint64_t record) { next_ = record; }

  void start(const JobStart& start);
  void answers(std::vector<std::pair<common::Digest, int64_t>> answers);
  void tuning_records(std::vector<std::pair<common::Digest, TuningRecord>> records);
  void told_to_finish(int64_t candidates);
  // A result, with what its kernels took on `device`, measured at `wall_ns`; `rows` are written
  // with it.
  void result(const std::shared_ptr<const TaskDone>& done, std::string device, int64_t wall_ns,
              Commits::Write rows, Commits::Done kept);
  // Nothing of the job is to be taken up again.
  void removal();
  // Rows beside the journal.
  void put(Commits::Write write) const;
  // Once all that was noted so far is on the disk, or why it is not.
  void when_written(Commits::Done done) const {
    commits_.put([](cache::Changes&) {}, std::move(done));
  }

 private:
  Commits& commits_;
  const farm::JobId job_;
  uint64_t next_ = 0;
};

}  // namespace coordinator::service
