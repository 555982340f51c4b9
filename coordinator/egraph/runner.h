// Runs rules on an e-graph until nothing changes, a goal is met or a limit is reached.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/rule.h"

namespace coordinator {

enum class StopReason {
  kSaturated,
  kGoal,
  kNodeLimit,
  kTimeLimit,
  kIterationLimit,
  kMemoryLimit,
};
// saturated | goal | node_limit | time_limit | iteration_limit | memory_limit
const char* stop_reason_name(StopReason reason);

struct RunLimits {
  uint64_t iterations = 30;
  // E-nodes, duplicates that await the next rebuild included. Looked at before every node a result
  // adds; only an apply function that adds more nodes than any before it can go beyond.
  uint64_t nodes = 1'000'000;
  double seconds = 60;
  // Of the e-graph's arrays in use (EGraph::bytes).
  uint64_t bytes = uint64_t{1} << 30;
};

// kSimple: every rule, every iteration. kBackoff (as in egg): a rule with more than
// match_limit << bans new matches is banned for ban_length << bans iterations; nothing is lost, the
// matches are found again afterwards.
struct Scheduling {
  enum class Kind { kSimple, kBackoff };
  Kind kind = Kind::kBackoff;
  uint64_t match_limit = 1000;
  uint64_t ban_length = 5;
};

struct RuleReport {
  std::string name;
  uint64_t matches = 0;   // new matches found and tried
  uint64_t rejected = 0;  // of these, refused by the condition
  uint64_t applied = 0;   // of these, that changed the e-graph
  uint64_t nodes_added = 0;
  uint64_t helped = 0;  // see count_helped()
  uint64_t banned = 0;  // times
  double search_s = 0;
  double apply_s = 0;
};

struct RunReport {
  StopReason stop = StopReason::kSaturated;
  uint64_t iterations = 0;
  double seconds = 0;
  double search_s = 0;
  double apply_s = 0;
  double rebuild_s = 0;
  uint64_t nodes = 0;
  uint64_t classes = 0;
  uint64_t bytes = 0;
  std::vector<RuleReport> rules;  // in the order of the rules
};

// Counts for each rule the chosen nodes that it helped to: those whose class the given program
// computes in another way, and the rule is on the proof that both are equal; or that stand for
// nothing in the given program, and the rule made the class or is on the proof from its first node.
// The e-graph keeps explanations.
void count_helped(const EGraph& graph, std::span<const NodeId> chosen, RunReport& report);

// The same e-graph and rules give the same e-graph, id for id, unless the time limit ends the run.
class Runner {
 public:
  // All are borrowed and must outlive the runner. Rules keep what they have seen from run to run:
  // use one runner for one e-graph.
  Runner(EGraph& graph, const std::vector<CompiledRule>& rules, const common::Clock& clock);
  ~Runner();

  // `goal` is asked before the first iteration and after each, on a rebuilt e-graph.
  RunReport run(const RunLimits& limits, const Scheduling& scheduling,
                const std::function<bool(const EGraph&)>& goal = {});

 private:
  struct RuleState {
    uint32_t seen = 0;  // matches among nodes stamped up to here were tried
    uint64_t banned_until = 0;
    uint32_t bans = 0;
  };
  class Iteration;

  EGraph& graph_;
  const std::vector<CompiledRule>& rules_;
  const common::Clock& clock_;
  std::vector<RuleState> states_;
};

}  // namespace coordinator
