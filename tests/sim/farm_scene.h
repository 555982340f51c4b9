// What the parts of a simulated farm share: what can go wrong, what was asked for, what came of it,
// and the world around a part, which gives it time, chance and neighbours.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "coordinator/farm/scheduler.h"

namespace sim {

using namespace coordinator::farm;  // NOLINT: the whole vocabulary is what this folder is about

// Probabilities per message, per write or per second, while faults last.
struct Faults {
  double drop = 0;
  double duplicate = 0;
  double corrupt = 0;     // a bit flips on the way
  double long_delay = 0;  // of up to 4 s, so that messages overtake one another
  double crash = 0;       // a worker's process dies
  double freeze = 0;      // a worker's processes stand still for up to 15 s
  double partition = 0;   // a worker is cut off for up to 20 s
  double drain = 0;       // a worker drains, leaves and comes back
  double infra = 0;       // per task
  double cancel = 0;      // a job
  double restart = 0;     // the coordinator is killed and comes back within 5 s
  double stall = 0;       // the coordinator stands still for up to 15 s
  double failover = 0;    // the coordinator is killed and another replica leads within 5 s
  double outage = 0;      // the store that replicas share answers nobody for up to 20 s
  double revoke = 0;      // an administrator withdraws a plan, and its client asks again
  double slow_write = 0;  // of up to 3 s
  double failed_write = 0;
  double full_disk = 0;        // for up to 20 s
  bool in_order = false;       // messages between two ends arrive in the order of sending
  bool late_workers = false;   // one target has no worker at first
  bool bad_candidates = true;  // some candidates crash, hang or kill their worker
  bool is_large = false;       // five times as many workers and jobs
  bool sick_target = false;    // no worker of one target ever judges anything
};

// Deliberate mistakes: each must be noticed, or the rules that are checked say nothing.
enum class Defect : uint8_t {
  kNone,
  kAcceptsOldEpochs,
  kCommitsTwice,
  kForgetsALease,
  kNeverExpiresALease,
  kNeverGivesUp,
  kNeverStopsAJob,
  kOverfillsWorkers,
  kMixesTargetsUp,
  kFeedsDrainingWorkers,
  kIgnoresPriorities,
  kIgnoresTenants,
  kNeverQuarantines,
  kQuarantinesAtOnce,
  kForgetsQuarantineAtRestart,
  kDropsAJobAtRestart,
  kTellsBeforeItIsWritten,
  kTrustsTornRecords,
  kBelievesDamagedMessages,
  kMeasuresAgainAfterRestart,
  kNumbersTasksByGeneration,
  kServesBeforeItReadsRevocations,
  kEnd,
};
const char* defect_name(Defect defect);

struct Report {
  std::string failure;  // empty: all rules held
  uint64_t trace = 0;   // hash of all events and actions
  size_t events = 0, committed = 0, given_up = 0, stale = 0, quarantined = 0, no_worker = 0;
  size_t overfull = 0;     // tasks that reached a worker without a free slot
  size_t damaged = 0;      // messages
  size_t undecodable = 0;  // of those, that the decoder refused by itself
  size_t torn = 0;         // records found at a restart
  size_t jobs_done = 0, jobs_failed = 0, jobs_stopped = 0;
  size_t failovers = 0, revoked = 0, shared = 0;  // shared: plans that another replica had made
  size_t fair_choices = 0;                        // at which two jobs or tenants were compared
  int64_t longest_ms = 0;                         // virtual time of one run
};

struct Candidate {
  std::string target;
  common::Digest fingerprint;
  uint32_t cost = 1;
  int64_t at_ms = 0;  // when the search proposes it
};

// What a client asks for. The farm gives it a JobId, a new one when it is asked again after a
// failure.
struct JobPlan {
  uint64_t key = 0;
  std::string tenant;
  uint32_t priority = 1;
  std::vector<Candidate> candidates;
};

struct Verdict {
  TaskOutcome outcome = TaskOutcome::kOk;
  Handle result = 0;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

enum class News : uint8_t { kAccepted, kDone, kFailed };

class Scene {
 public:
  Scene(uint64_t seed, const Faults& faults, Defect defect)
      : faults(faults), defect(defect), random(seed) {}
  virtual ~Scene() = default;
  virtual int64_t now_ms() const = 0;
  virtual void at(int64_t ms, std::function<void()> what) = 0;
  virtual void to_worker(WorkerId worker, const Action& action) = 0;
  virtual void to_client(uint64_t key, News news) = 0;
  // Only the first one counts.
  virtual void fail(const std::string& what) = 0;
  // A line of the trace.
  virtual void record(const std::string& line) = 0;

  static constexpr int64_t kFaultsEndMs = 60'000;
  static constexpr int64_t kRunLimitMs = 3'000;
  bool faulty() const { return now_ms() < kFaultsEndMs; }
  bool strikes(double probability) { return faulty() && random.chance(probability); }
  bool has(Defect other) const { return defect == other; }
  int64_t below_ms(uint64_t bound) { return static_cast<int64_t>(random.below(bound)); }

  const Faults faults;
  const Defect defect;
  common::Random random;
  Report report;
};

Config config_of_a_fast_farm();

}  // namespace sim
