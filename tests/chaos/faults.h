// What is done to the farm, drawn from a seed: the same seed draws the same faults in the same
// order, though the processes' own timing differs from run to run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/chaos/farm.h"

namespace chaos {

enum class Fault : uint8_t {
  kKillWorker,
  kKillChild,  // of a worker: its executor or a compiler
  kKillCoordinator,
  kKillSearcher,
  kKillClient,
  kDrainWorker,
  kStopWorker,
  kStopChild,
  kStopCoordinator,
  kFillDisk,
  kCutNetwork,
  kCutStore,  // that several coordinators share
};
const char* fault_name(Fault fault);

class Faults {
 public:
  // `only`: the name of the one fault that is wanted; empty: all.
  Faults(Farm& farm, uint64_t seed, const std::string& only);
  // Begins faults and ends them when their time has come. To be called often.
  void tend(int64_t now_ns);
  // Ends all that are under way.
  void heal();
  // How many there were of each.
  std::string summary() const;

 private:
  struct Active {
    Fault fault;
    size_t target = 0;  // which worker
    pid_t child = 0;
    int64_t end_ns = 0;
  };
  void begin(int64_t now_ns);
  void end(const Active& active);
  bool is_active(Fault fault) const;
  // The child of a worker that the draw falls on; 0 without one.
  pid_t child_of(size_t worker, uint64_t draw) const;

  Farm& farm_;
  common::Random random_;
  bool is_possible(Fault fault) const;
  std::vector<Fault> known_;  // that this machine permits
  std::vector<Active> active_;
  int64_t next_ns_ = 0;
  std::map<Fault, int> counts_;
};

}  // namespace chaos
