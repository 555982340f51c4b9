#include "coordinator/egraph/runner.h"

#include <algorithm>
#include <optional>
#include <set>

#include "common/base/check.h"
#include "coordinator/egraph/applier.h"
#include "coordinator/egraph/matcher.h"

namespace coordinator {

namespace {
// Matches are applied in blocks while the search stands still: the matched nodes are still cached,
// and memory for matches is bounded.
constexpr size_t kBlockWords = 8192;
// Bounds the back-off settings, so that doubling them does not overflow.
constexpr uint64_t kMostMatches = uint64_t{1} << 32;
}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kSaturated:
      return "saturated";
    case StopReason::kGoal:
      return "goal";
    case StopReason::kNodeLimit:
      return "node_limit";
    case StopReason::kTimeLimit:
      return "time_limit";
    case StopReason::kIterationLimit:
      return "iteration_limit";
    case StopReason::kMemoryLimit:
      return "memory_limit";
  }
  return "unknown";
}

// One run: the limits, the report so far, and the sink of the rule being searched.
class Runner::Iteration final : public MatchSink {
 public:
  Iteration(Runner& runner, const RunLimits& limits, const Scheduling& scheduling)
      : runner_(runner),
        graph_(runner.graph_),
        limits_(limits),
        backoff_(scheduling.kind == Scheduling::Kind::kBackoff),
        scheduling_(scheduling),
        matcher_(runner.graph_),
        applier_(runner.graph_) {
    laps_.start_ns = laps_.mark_ns = now();
    for (const CompiledRule& rule : runner.rules_) {
      report_.rules.emplace_back().name = rule.rule.name;
    }
  }

  RunReport run(const std::function<bool(const EGraph&)>& goal) {
    graph_.rebuild();
    lap(report_.rebuild_s);
    report_.stop = loop(goal);
    report_.nodes = graph_.node_count();
    report_.classes = graph_.class_count();
    report_.bytes = graph_.bytes();
    report_.seconds = static_cast<double>(now() - laps_.start_ns) * 1e-9;
    return std::move(report_);
  }

  // Under back-off all matches are kept until it is known that they are not too many.
  bool on_full() override { return !backoff_ && flush(); }

  bool on_tick() override { return !over_time_or_memory(); }

 private:
  struct Laps {
    int64_t start_ns = 0;
    int64_t mark_ns = 0;
  };
  int64_t now() const { return runner_.clock_.now_ns(); }
  // Adds the time since the last lap.
  void lap(double& seconds) {
    int64_t at = now();
    seconds += static_cast<double>(at - laps_.mark_ns) * 1e-9;
    laps_.mark_ns = at;
  }

  bool over_time_or_memory() {
    if (graph_.bytes() > limits_.bytes) {
      stop_ = StopReason::kMemoryLimit;
    } else if (static_cast<double>(now() - laps_.start_ns) * 1e-9 >= limits_.seconds) {
      stop_ = StopReason::kTimeLimit;
    }
    return stop_.has_value();
  }

  StopReason loop(const std::function<bool(const EGraph&)>& goal) {
    while (true) {
      if (goal && goal(graph_)) return StopReason::kGoal;
      if (over_time_or_memory()) return *stop_;
      if (graph_.node_count() >= limits_.nodes) return StopReason::kNodeLimit;
      if (report_.iterations >= limits_.iterations) return StopReason::kIterationLimit;
      uint64_t created = graph_.nodes_created(), merged = graph_.merges();
      size_t nodes_before = graph_.node_count();
      for (uint32_t r = 0; r < runner_.rules_.size() && !stop_; ++r) {
        if (r == 0) next_snapshot();
        if (banned(r)) {
          waiting_ = true;
        } else {
          run_rule(r);
        }
      }
      lap(report_.search_s);
      graph_.rebuild();
      lap(report_.rebuild_s);
      ++report_.iterations;
      if (stop_ == StopReason::kNodeLimit && !at_node_limit(nodes_before)) stop_.reset();
      if (stop_) return goal && goal(graph_) ? StopReason::kGoal : *stop_;
      bool changed = graph_.nodes_created() != created || graph_.merges() != merged;
      if (changed || interrupted_) continue;
      if (waiting_) {
        shorten_bans();
      } else {
        return goal && goal(graph_) ? StopReason::kGoal : StopReason::kSaturated;
      }
    }
  }

  // The limit counts duplicates; when the rebuild removed enough of them, the run goes on.
  bool at_node_limit(size_t nodes_before) const {
    size_t nodes = graph_.node_count();
    return nodes <= nodes_before || nodes + limits_.nodes / 100 >= limits_.nodes;
  }

  void next_snapshot() {
    upto_ = graph_.epoch();
    graph_.advance_epoch();
    interrupted_ = false;
    waiting_ = false;
  }

  bool banned(uint32_t r) const {
    return backoff_ && report_.iterations < runner_.states_[r].banned_until;
  }

  // Nothing changed while rules waited for their bans to end: at least one runs next.
  void shorten_bans() {
    uint64_t soonest = ~uint64_t{0};
    auto left = [this](const RuleState& state) {
      return state.banned_until - std::min(state.banned_until, report_.iterations);
    };
    for (const RuleState& state : runner_.states_) {
      if (left(state) > 0) soonest = std::min(soonest, left(state));
    }
    for (RuleState& state : runner_.states_) {
      if (left(state) > 0) state.banned_until -= soonest;
    }
  }

  void run_rule(uint32_t r) {
    rule_ = &runner_.rules_[r];
    RuleState& state = runner_.states_[r];
    RuleReport& report = report_.rules[r];
    rule_report_ = &report;
    words.clear();
    uint32_t doublings = std::min<uint32_t>(state.bans, 20);
    uint64_t block = kBlockWords / rule_->match_words() + 1;
    uint64_t threshold = std::min(scheduling_.match_limit, kMostMatches) << doublings;
    full_words = (backoff_ ? threshold : block) * rule_->match_words();
    uint32_t seen = rule_->rule.incremental ? state.seen : 0;
    bool whole = matcher_.search(*rule_, seen, upto_, *this);
    lap_search();
    if (!whole && !stop_) {  // more matches than the threshold
      state.banned_until =
          report_.iterations + (std::min(scheduling_.ban_length, kMostMatches) << doublings);
      ++state.bans;
      ++report.banned;
      interrupted_ = true;
      return;
    }
    if (whole && flush()) {
      state.seen = upto_;
    } else {
      interrupted_ = true;
    }
  }

  void lap_search() {
    double seconds = 0;
    lap(seconds);
    rule_report_->search_s += seconds;
    report_.search_s += seconds;
  }

  // Applies the stored matches.
  bool flush() {
    if (words.empty()) return true;
    lap_search();
    ApplyCounts counts;
    graph_.set_reason(rule_->rule.name);
    bool within = applier_.apply(*rule_, words, limits_.nodes, counts);
    graph_.set_reason("given");
    words.clear();
    rule_report_->matches += counts.matches;
    rule_report_->rejected += counts.rejected;
    rule_report_->applied += counts.applied;
    rule_report_->nodes_added += counts.nodes_added;
    double seconds = 0;
    lap(seconds);
    rule_report_->apply_s += seconds;
    report_.apply_s += seconds;
    if (!within) stop_ = StopReason::kNodeLimit;
    return within && !over_time_or_memory();
  }

  Runner& runner_;
  EGraph& graph_;
  const RunLimits& limits_;
  bool backoff_;
  const Scheduling& scheduling_;
  Matcher matcher_;
  Applier applier_;
  RunReport report_;
  Laps laps_;
  std::optional<StopReason> stop_;
  uint32_t upto_ = 0;
  // A rule has matches left that were found but not applied.
  bool interrupted_ = false;
  bool waiting_ = false;  // a rule was not run because it is banned
  const CompiledRule* rule_ = nullptr;
  RuleReport* rule_report_ = nullptr;
};

void count_helped(const EGraph& graph, std::span<const NodeId> chosen, RunReport& report) {
  const ProofForest* proofs = graph.proofs();
  LFARM_CHECK(proofs != nullptr, "count_helped() needs an e-graph with explanations");
  std::vector<uint64_t> helped(proofs->reason_count(), 0);
  for (NodeId node : chosen) {
    std::set<Reason> reasons;
    auto credit_way_from = [&](NodeId other) {
      for (const ProofForest::Step& step : proofs->path(other, node)) reasons.insert(step.reason);
    };
    bool said = false;  // by the given program
    NodeId oldest = node;
    graph.for_each_node(graph.class_of(node), [&](NodeId other) {
      oldest = std::min(oldest, other);
      if (proofs->origin(other) != ProofForest::kGiven) return;
      said = true;
      credit_way_from(other);
    });
    if (!said) {
      reasons.insert(proofs->origin(oldest));
      credit_way_from(oldest);
    }
    for (Reason reason : reasons) ++helped[reason];
  }
  for (RuleReport& rule : report.rules) {
    for (Reason reason = ProofForest::kAnalysis + 1; reason < helped.size(); ++reason) {
      if (proofs->reason_name(reason) == rule.name) rule.helped = helped[reason];
    }
  }
}

Runner::Runner(EGraph& graph, const std::vector<CompiledRule>& rules, const common::Clock& clock)
    : graph_(graph), rules_(rules), clock_(clock), states_(rules.size()) {}

Runner::~Runner() = default;

RunReport Runner::run(const RunLimits& limits, const Scheduling& scheduling,
                      const std::function<bool(const EGraph&)>& goal) {
  for (RuleState& state : states_) {
    state.banned_until = 0;
    state.bans = 0;
  }
  return Iteration(*this, limits, scheduling).run(goal);
}

}  // namespace coordinator
