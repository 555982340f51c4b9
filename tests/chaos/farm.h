// A whole farm of real processes with what is needed to hurt it: coordinator, workers near and far,
// clients near and far, a small disk and a link that can be cut; or several coordinators.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/result.h"
#include "tests/chaos/client.h"
#include "tests/chaos/disk.h"
#include "tests/chaos/idle_watch.h"
#include "tests/chaos/network.h"
#include "tests/chaos/process.h"
#include "tests/chaos/replicas.h"
#include "tests/chaos/simulated_load.h"

namespace chaos {

struct FarmOptions {
  std::string binaries;            // folder of lfarm, lfarm-coordinator and lfarm-worker
  std::vector<std::string> cases;  // folders, in the order in which they are submitted
  int coordinators = 1;            // more than one share a lease and a store
  bool has_shards = false;         // or all of several serve at once, each its shards
  int searchers = 0;               // in all, of the coordinators in turn
  int simulated = 0;               // workers without a device, with clients for their target
  std::string simulated_workers;   // their program
  std::string obstacle;            // why leave_the_machine() has failed; empty: it has not
};

class Farm {
 public:
  static common::Result<std::unique_ptr<Farm>> start(FarmOptions options);

  // One look after all processes and clients. Clients take new cases only while `go_on`.
  void tend(bool go_on);
  // No client waits for anything.
  bool is_quiet() const;
  // Stops the workers and the coordinator and compares what is left with what clients were told.
  void examine();

  std::vector<std::unique_ptr<Supervised>>& coordinators() { return coordinators_; }
  std::vector<std::unique_ptr<Supervised>>& workers() { return workers_; }
  std::vector<std::unique_ptr<Supervised>>& searchers() { return searchers_; }
  std::vector<std::unique_ptr<Client>>& clients() { return clients_; }
  SimulatedLoad* simulated() { return simulated_.get(); }  // null where none is asked for
  SmallDisk* disk() { return disk_.get(); }                // null where none can be mounted
  Replicas* replicas() { return replicas_.get(); }         // null with one coordinator
  bool has_shards() const { return options_.has_shards; }
  FarNetwork* network() { return network_.get(); }           // null where none can be made
  const std::string& obstacle() const { return obstacle_; }  // why one of them is null

  void set_disk_full(bool full);
  // What must never happen and has.
  const std::vector<std::string>& violations() const { return violations_; }
  void complain(const std::string& what);
  // One line for people, with the time since the start.
  void say(const std::string& what) const;
  size_t submits_done() const { return submits_done_; }
  size_t cases_done() const { return plans_.size(); }
  int attempts() const;
  // The end of each process's log.
  void print_logs() const;

 private:
  Farm(FarmOptions options, common::ScratchDirectory scratch);
  common::Status prepare_places();
  common::Status prepare_keys();
  common::Status start_coordinators();
  std::string state(int coordinator) const;
  std::vector<std::string> arguments_of(int coordinator) const;
  common::Status await_endpoint();
  common::Status start_searchers();
  common::Status start_workers();
  common::Status start_simulated();
  void make_clients();
  common::Result<std::string> lfarm(std::vector<std::string> arguments, int timeout_ms) const;
  // How a client reaches the farm.
  std::vector<std::string> access(const std::string& endpoint) const;
  // The same, and what it submits for.
  std::vector<std::string> connection(const std::string& endpoint) const;
  std::string path(const std::string& name) const { return scratch_.path() + "/" + name; }
  std::string endpoint(bool far) const;
  std::string searchers_endpoint(int coordinator) const;  // where it listens for searchers
  std::string next_case();
  void check_outputs();
  void check_leftovers();
  void check_same_plans();
  void check_plans(const std::string& listing);

  FarmOptions options_;
  common::ScratchDirectory scratch_;
  common::SteadyClock clock_;
  int64_t start_ns_ = 0;
  std::string obstacle_;
  std::unique_ptr<SmallDisk> disk_;
  std::unique_ptr<FarNetwork> network_;  // outlives the processes that live in it
  std::vector<int> ports_;               // of the coordinators, or the one that all take in turn
  std::string farm_key_;
  std::unique_ptr<Replicas> replicas_;  // outlives the coordinators
  std::unique_ptr<IdleWatch> idle_watch_;
  std::vector<std::unique_ptr<Supervised>> coordinators_;
  std::vector<std::unique_ptr<Supervised>> searchers_;
  std::vector<std::unique_ptr<Supervised>> workers_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unique_ptr<SimulatedLoad> simulated_;            // null where none is asked for
  size_t next_ = 0;                                     // in the order of submits
  std::map<std::string, std::set<std::string>> plans_;  // of each case
  std::map<std::string, std::string> graphs_;           // of each case
  size_t submits_done_ = 0;
  bool disk_full_ = false;
  int64_t disk_freed_ns_ = INT64_MIN;
  std::vector<std::string> violations_;
};

}  // namespace chaos
