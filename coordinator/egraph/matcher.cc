#include "coordinator/egraph/matcher.h"

#include <algorithm>

namespace coordinator {

namespace {
constexpr uint32_t kTick = 1 << 16;  // visited nodes between calls of on_tick
constexpr size_t kUpCost = 8;        // parents met on the way up, against nodes on the way down
constexpr size_t kAhead = 12;        // log entries whose nodes are fetched ahead
}  // namespace

// Calls f(Head) for the heads an atom matches, in the order they were met, until it returns false.
template <class F>
bool Matcher::for_each_head(const Atom& atom, F&& f) const {
  if (!atom.is_family) {
    return atom.symbol >= graph_.heads_.all.size() || f(atom.symbol);
  }
  auto members = graph_.heads_.families.find(atom.symbol);
  if (members == graph_.heads_.families.end()) return true;
  // By index: a sink may add heads; those have no node in this snapshot.
  for (size_t i = 0, n = members->second.size(); i < n; ++i) {
    if (!f(members->second[i])) return false;
  }
  return true;
}

size_t Matcher::live(const Atom& atom) const {
  size_t out = 0;
  for_each_head(atom, [&](Head head) {
    out += graph_.heads_.all[head].live;
    return true;
  });
  return out;
}

// An upper bound: nodes that changed twice count twice.
size_t Matcher::changed_since(const Atom& atom, uint32_t seen) const {
  size_t out = 0;
  for_each_head(atom, [&](Head head) {
    const auto& log = graph_.heads_.all[head].log;
    if (log.empty() || log[log.size() - 1].stamp <= seen) return true;
    auto first = std::upper_bound(
        log.begin(), log.end(), seen,
        [](uint32_t stamp, const EGraph::LogEntry& entry) { return stamp < entry.stamp; });
    out += static_cast<size_t>(log.end() - first);
    return true;
  });
  return out;
}

bool Matcher::search(const CompiledRule& rule, uint32_t seen, uint32_t upto, MatchSink& sink) {
  rule_ = &rule;
  sink_ = &sink;
  seen_ = seen;
  upto_ = upto;
  ticks_ = kTick;
  size_t atoms = rule.atoms.size();
  uint32_t start = 0;
  size_t full_cost = ~size_t{0}, changed = 0;
  std::vector<size_t> delta(atoms);
  for (uint32_t i = 0; i < atoms; ++i) {
    size_t count = live(rule.atoms[i]);
    if (count == 0) return true;
    bool goes_up = atoms > 1 && rule.plans[i][1].kind == Step::Kind::kUp;
    size_t cost = goes_up ? count * kUpCost : count;
    if (cost < full_cost) {
      full_cost = cost;
      start = i;
    }
    delta[i] = changed_since(rule.atoms[i], seen);
    changed += delta[i];
  }
  if (changed == 0) return true;
  bits_.clear();
  for (const Atom& atom : rule.atoms) {
    bits_.push_back(atom.is_family ? EGraph::family_bit(atom.symbol)
                                   : EGraph::head_bit(atom.symbol));
  }
  ranges_.assign(atoms, {0, upto});
  registers_.assign(rule.registers, kNone);
  heads_.assign(rule.names.heads.size(), {});
  if (seen == 0 || changed > full_cost) {
    // Much is new: one pass over all, keeping the matches with something new in them.
    require_new_ = seen > 0;
    return run_plan(rule.plans[start]);
  }
  // One pass for each atom that may be the first new one: those before it old, those after any.
  require_new_ = false;
  for (uint32_t i = 0; i < atoms; ++i) {
    ranges_[i] = {seen + 1, upto};
    if (delta[i] > 0 && !run_plan(rule.plans[i])) return false;
    ranges_[i] = {0, seen};
  }
  return true;
}

bool Matcher::run_plan(const std::vector<Step>& plan) {
  plan_ = &plan;
  return go(0, false);
}

bool Matcher::go(size_t depth, bool any_new) {
  if (depth == plan_->size()) return (require_new_ && !any_new) || emit();
  const Step& step = (*plan_)[depth];
  const Atom& atom = rule_->atoms[step.atom];
  switch (step.kind) {
    case Step::Kind::kScan:
      return scan(depth, atom, any_new);
    case Step::Kind::kDown: {
      uint32_t cls = registers_[step.from_register];
      for (NodeId n = graph_.first_node(cls); n != kNone; n = graph_.nodes_[n].next) {
        if (!visit(depth, n, any_new)) return false;
      }
      return true;
    }
    case Step::Kind::kUp: {
      // New uses are put before the first: they don't disturb the walk.
      uint32_t cls = registers_[step.from_register];
      for (uint32_t s = graph_.classes_[cls].parents_first; s != kNone; s = graph_.link(s)) {
        if (graph_.position(s) != step.from_position) continue;
        if (!visit(depth, graph_.owner(s), any_new)) return false;
      }
      return true;
    }
    case Step::Kind::kProbe: {
      key_.clear();
      for (const Step::Child& child : step.children) key_.push_back(registers_[child.reg]);
      NodeId found = graph_.probe(atom.symbol, key_);
      return found == kNone || visit(depth, found, any_new);
    }
  }
  return true;
}

bool Matcher::scan(size_t depth, const Atom& atom, bool any_new) {
  return for_each_head(atom, [&](Head head) { return scan_head(depth, head, any_new); });
}

bool Matcher::scan_head(size_t depth, Head head, bool any_new) {
  Range range = ranges_[(*plan_)[depth].atom];
  const auto* log = &graph_.heads_.all[head].log;
  size_t begin = 0, end = log->size();
  auto before = [](uint32_t stamp, const EGraph::LogEntry& e) { return stamp < e.stamp; };
  if (range.low > 0) {
    begin = std::upper_bound(log->begin(), log->end(), range.low - 1, before) - log->begin();
  }
  for (size_t i = begin; i < end; ++i) {
    log = &graph_.heads_.all[head].log;  // the sink may have moved it
    if (i + kAhead < end) __builtin_prefetch(&graph_.nodes_[(*log)[i + kAhead].node]);
    EGraph::LogEntry entry = (*log)[i];
    if (entry.stamp > range.high) break;
    if (graph_.nodes_[entry.node].stamp != entry.stamp) continue;
    if (!visit(depth, entry.node, any_new)) return false;
  }
  return true;
}

inline bool Matcher::visit(size_t depth, NodeId id, bool any_new) {
  if (--ticks_ == 0) {
    ticks_ = kTick;
    if (!sink_->on_tick()) return false;
  }
  const EGraph::Node& node = graph_.nodes_[id];
  const Step& step = (*plan_)[depth];
  const Atom& atom = rule_->atoms[step.atom];
  if (atom.is_family) {
    if (node.head == kNone || graph_.heads_.all[node.head].family != atom.symbol) return true;
  } else if (node.head != atom.symbol) {
    return true;
  }
  Range range = ranges_[step.atom];
  if (node.stamp < range.low || node.stamp > range.high) return true;
  bool is_new = any_new || node.stamp > seen_;
  if (!bind(step, atom, node, id)) return true;
  if (step.atom == 0) root_ = id;
  return go(depth + 1, is_new);
}

inline bool Matcher::bind(const Step& step, const Atom& atom, const EGraph::Node& node, NodeId id) {
  uint32_t arity = graph_.arity_of(node);
  uint32_t wanted = static_cast<uint32_t>(atom.child_registers.size());
  if (arity != wanted && (!atom.open || arity < wanted)) return false;
  if (step.bind_class) {
    registers_[atom.class_register] = node.cls;
  } else if (registers_[atom.class_register] != node.cls) {
    return false;
  }
  const ClassId* children =
      node.child[0] == EGraph::kWide ? graph_.wide_.child.data() + node.link[0] : node.child;
  for (const Step::Child& child : step.children) {
    if (child.bind) {
      ClassId cls = children[child.position];
      registers_[child.reg] = cls;
      if (child.needs_atom != kNone && (graph_.masks_[cls] & bits_[child.needs_atom]) == 0) {
        return false;
      }
    } else if (registers_[child.reg] != children[child.position]) {
      return false;
    }
  }
  if (atom.head_variable != kNone) {
    BoundHead& bound = heads_[atom.head_variable];
    if (step.bind_head) {
      bound = {node.head, id};
    } else if (bound.head != node.head) {
      return false;
    }
  }
  return true;
}

bool Matcher::emit() {
  if (sink_->words.size() >= sink_->full_words && !sink_->on_full()) return false;
  auto& words = sink_->words;
  words.push_back(graph_.why_.proofs ? root_ : registers_[rule_->atoms[0].class_register]);
  for (size_t i = 0; i < rule_->names.classes.size(); ++i) words.push_back(registers_[i]);
  for (const BoundHead& bound : heads_) {
    words.push_back(bound.head);
    words.push_back(bound.node);
  }
  return true;
}

}  // namespace coordinator
