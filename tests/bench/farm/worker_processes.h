// Simulated workers in processes of their own, where one process has too few descriptors for all
// connections: a connection takes four, and thousands of workers connect to several coordinators.
#pragma once

#include <sys/types.h>

#include <vector>

#include "tests/bench/farm/simulated_workers.h"

namespace bench {

// Not thread-safe. Throws when a process fails.
class WorkerProcesses {
 public:
  // Forks: for a process that has no threads yet. All workers connect to each of the coordinators,
  // and have been welcomed when this returns.
  WorkerProcesses(const std::vector<const FarmUnderLoad*>& farms, const WorkersOptions& options);
  // Kills them.
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  double cpu_s() const;
  // Ends the processes.
  WorkersReport finish();

 private:
  struct Process {
    pid_t pid = 0;
    int socket = -1;
  };
  static void wait_until_welcome(const Process& process);
  void start(const std::vector<const FarmUnderLoad*>& farms, const WorkersOptions& options);

  std::vector<Process> processes_;
};

}  // namespace bench
