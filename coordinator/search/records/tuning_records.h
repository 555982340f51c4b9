// What a search found out about a region or a kernel, kept under its own identity, so that another
// model's search need not find it out again.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/digest.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "coordinator/search/genes/genome.h"
#include "coordinator/search/genes/schedule_space.h"

namespace coordinator {

// What a search spends on one region: its candidates, or its share of the search's time.
struct Effort {
  int64_t candidates = 0;
  int64_t ms = 0;  // 0: time was no bound
  // Whether whoever would spend that much need not search again: half of it is enough, because
  // shares of a budget follow from times that are not known beforehand.
  bool covers(const Effort& asked) const {
    return candidates >= asked.candidates / 2 || (asked.ms > 0 && ms >= asked.ms / 2);
  }
  friend bool operator==(const Effort&, const Effort&) = default;
};
inline constexpr int64_t kSettledCandidates = int64_t{1} << 40;  // more would find nothing

// What a tuning record is about, which its key does not say.
enum class TuningRecordKind : uint8_t {
  kRegion,  // a region, or a whole graph
  kKernel,
  kKin,  // regions that differ in sizes alone (kin.h)
};

inline constexpr double kWithdrawn = -1;  // the time of a program that turned out to be wrong

struct TuningRecord {
  Effort effort;
  double ns = 0;              // of one run of the best program or schedule
  double worker_ms = 0;       // what workers took to find it; of a region
  ScheduleCode schedule = 0;  // of a kernel: the best
  common::Program program;    // of a region: the best, verified; of a kernel: without calls
  Genome genome;              // of kin: the best of one
  TuningRecordKind kind() const {
    if (genome.size() != 0) return TuningRecordKind::kKin;
    return program.calls.empty() ? TuningRecordKind::kKernel : TuningRecordKind::kRegion;
  }
};

// Tuning records hold for one target, machine class and epoch, those of regions for one policy as
// well. Regions that differ in names and in the order of nodes have one key. `machine` is empty
// where the class is not known.
common::Digest region_key(const common::Graph& region, const common::Target& target,
                          const std::string& policy, const std::string& machine = {});
common::Digest kernel_key(common::Template form, const common::Digest& body,
                          const common::Target& target, const std::string& machine = {});

// Of a whole graph, the same for graphs of one normal form.
common::Digest whole_key(const common::Graph& graph, const common::Target& target,
                         const std::string& policy, const std::string& machine = {});

// Whether the tuning record's program verifies and takes the place of the graph as it stands.
bool fits(const TuningRecord& record, const common::Graph& graph);

}  // namespace coordinator
