// The worker's side of the executor child: keeps one alive, gives it requests, and turns whatever
// happens to it into an outcome.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/base/result.h"
#include "common/process/pausable_groups.h"
#include "common/process/pipe.h"
#include "common/process/subprocess.h"
#include "common/sandbox/sandbox.h"
#include "common/wire/context.h"
#include "worker/profile/request.h"

namespace worker {

struct ProfileLimits {
  int candidate_ms = 10'000;  // the candidate's own code, all its runs together; then kHang
  int total_ms = 60'000;      // everything; beyond it the worker was too slow: kInfra
};

// Child processes end with the thread that started them, so every call comes from one thread that
// lives as long as the client; interrupt() alone may come from any.
class ExecutorClient {
 public:
  // `command` starts a child that calls run_executor_child(0): its standard input is the pipe. Each
  // child has a temporary directory of its own, and enters `sandbox` where there is one. It is
  // among `pausable`, where that is given, while it runs and does not measure.
  explicit ExecutorClient(std::vector<std::string> command,
                          std::shared_ptr<const common::Sandbox> sandbox = nullptr,
                          std::shared_ptr<common::PausableGroups> pausable = nullptr);
  ~ExecutorClient();
  ExecutorClient(const ExecutorClient&) = delete;
  ExecutorClient& operator=(const ExecutorClient&) = delete;

  // Starts a child where there is none, so that the first request need not wait for it. run()
  // replaces children that died by itself.
  common::Status warm_up();

  // `graph_bytes` is the encoded graph that request.graph names; the request leaves it out. Always
  // answers: kCrash when the child died in the candidate's code, kHang when that ran too long,
  // kInfra for everything that was not the candidate's fault, else what the child found.
  ProfileReply run(const ProfileRequest& request, common::ByteView graph_bytes,
                   const ProfileLimits& limits);

  // Makes the run() under way kill its child and answer kInfra soon; thread-safe. The interruption
  // stays until clear_interrupt().
  void interrupt() { interrupt_.wake(); }
  void clear_interrupt() { interrupt_.clear(); }

  // The running child's process id; 0 without one.
  pid_t child_pid() const { return child_ == nullptr ? 0 : child_->process.pid(); }

 private:
  struct Child {
    Child(common::ScratchDirectory own, common::Subprocess subprocess, int fd,
          common::PausableGroups* pausable)
        : temporary(std::move(own)),
          process(std::move(subprocess)),
          fd(fd),
          stream(fd),
          pausable(pausable) {}
    ~Child();
    // Whether it stops when others measure.
    void stand_still(bool may);
    common::ScratchDirectory temporary;  // outlives the process
    common::Subprocess process;
    int fd;
    common::FrameStream stream;
    ProfileStage stage = ProfileStage::kReference;
    bool candidate_ran = false;  // during the request under way
    common::PausableGroups* const pausable;
    bool is_pausable = false;
  };
  struct Deadlines;

  ProfileReply exchange(const common::Bytes& frame, Deadlines& deadlines);
  // Waits until the pipe moves. Fills `reply` when it ends the run instead.
  bool wait(Deadlines& deadlines, ProfileReply& reply);
  ProfileReply blame_death();
  // After a kernel's fault: what a second run says that waits for each call, or `first`.
  std::string culprit(ProfileRequest request, common::ByteView graph_bytes, Deadlines& deadlines,
                      std::string first);

  std::vector<std::string> command_;
  std::shared_ptr<const common::Sandbox> sandbox_;    // may be null
  std::shared_ptr<common::PausableGroups> pausable_;  // not null
  std::unique_ptr<Child> child_;
  common::Waker interrupt_;
};

}  // namespace worker
