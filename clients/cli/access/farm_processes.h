// A farm of this process's own: a coordinator, workers and maybe searchers as child processes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"
#include "common/process/subprocess.h"

namespace clients {

struct FarmProcessOptions {
  StateDirectory state;
  std::string listen;
  std::string endpoint_file;             // which the coordinator writes
  std::string device = "cpu";            // what the workers are told to work on
  std::optional<int> gpu;                // that all workers work on; else each takes the next
  int workers = 2;                       // or kWorkersOfDevice
  std::string http;                      // HOST:PORT of the coordinator's page; empty: none
  int searchers = 0;                     // processes that search in the coordinator's place
  std::vector<std::string> coordinator;  // further words for the coordinator's command line
};

// Starts the processes, starts again those that die, stops them. The children's output goes to
// files in the state directory's logs. Not thread-safe, and all calls come from the thread that
// started it.
class FarmProcesses {
 public:
  // Returns once the coordinator listens; workers connect meanwhile. Takes the state directory's
  // lock first: null when another process has it. What the coordinator says when it refuses to
  // start is the error's message: kUnavailable where its disk is full.
  static common::Result<std::unique_ptr<FarmProcesses>> start(FarmProcessOptions options);
  // Stops what still runs.
  ~FarmProcesses();
  FarmProcesses(const FarmProcesses&) = delete;
  FarmProcesses& operator=(const FarmProcesses&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // HOST:PORT as bound, where there is a page.
  const std::string& http() const { return options_.http; }
  // What clients on other machines need to reach the farm; empty where none can.
  const std::string& public_key() const { return public_key_; }
  // How many it has.
  size_t workers() const { return workers_.size(); }
  size_t searchers() const { return searchers_.size(); }
  // Looks after the children. To be called several times a second. An error when the farm cannot go
  // on: a process that refuses to run, or dies again and again.
  common::Status tend();
  // Drains the workers, then stops the coordinator; kills what does not end within about four
  // seconds.
  void stop();

 private:
  struct Child {
    std::string name;
    std::optional<common::Subprocess> process;
    std::optional<int> gpu;  // a worker's, of several
    int starts = 0;
    int64_t restart_at_ns = 0;
    std::vector<int64_t> deaths_ns;  // recent ones
  };

  explicit FarmProcesses(FarmProcessOptions options) : options_(std::move(options)) {}
  common::Status start_coordinator(const std::string& listen);
  common::Status start_worker(Child* child);
  common::Status start_searcher(Child* child);
  common::Status start_again(Child* child);
  common::Status launch(Child* child, std::vector<std::string> arguments);
  common::Status tend(Child* child);
  common::Status died(Child* child, common::ExitStatus status);
  std::string log_path(const Child& child) const;
  std::string last_words(const Child& child) const;

  FarmProcessOptions options_;
  std::unique_ptr<FarmLock> lock_;
  std::string endpoint_;
  std::string public_key_;
  Child coordinator_;
  std::vector<Child> workers_;
  std::vector<Child> searchers_;
  std::string searchers_endpoint_;
};

}  // namespace clients
