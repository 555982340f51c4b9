// What an agent sees of the work on its tasks: it hands over a task whose blobs are all here, and
// takes its result.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/wire/messages.h"
#include "common/wire/socket.h"

namespace worker {

// A task whose blobs are all here.
struct Job {
  common::TaskLease lease;
  common::Bytes payload;  // encoded TaskPayload
  std::map<common::Digest, common::SharedBytes> blobs;
  int64_t received_ns = 0;       // on the steady clock
  int64_t deadline_ns = 0;       // the answer must be out by then
  bool is_reproducible = false;  // as of common::Task
  bool is_only_build = false;
};

struct JobResult {
  common::TaskResult message;
  std::map<common::Digest, std::shared_ptr<const common::Bytes>> blobs;  // that the report names
};

// The agent's view, so that tests can put a scripted one in its place. Thread-safe.
class Pipeline {
 public:
  virtual ~Pipeline() = default;
  virtual void submit(Job job) = 0;
  // No result of this lease comes any more, as soon as this returns. True when nothing had been
  // done for it yet.
  virtual bool cancel(const common::TaskLease& lease) = 0;
  // Cancels what has not reached the device and says what that was.
  virtual std::vector<common::TaskLease> cancel_waiting() = 0;
  virtual std::vector<JobResult> take_results() = 0;
  // Readable when there are results; cleared by take_results().
  virtual int results_fd() const = 0;
};

}  // namespace worker
