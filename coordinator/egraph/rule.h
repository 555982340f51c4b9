// Rewrite rules: what to look for, under which condition, and what equals the match.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/ids.h"
#include "coordinator/egraph/pattern.h"

namespace coordinator {

// What a head variable matched.
struct BoundHead {
  Head head = kNone;
  NodeId node = kNone;  // the matched node; may be dead by now, its head is not needed from there
};

// The names of a rule's variables, in order of first occurrence in the patterns' text.
struct MatchNames {
  std::vector<std::string> classes;
  std::vector<std::string> heads;
};

// One match, valid during the call it is passed to. Classes are canonical.
struct Match {
  ClassId root = kNone;  // the class of the first pattern's root
  std::span<const ClassId> classes;
  std::span<const BoundHead> heads;
  const MatchNames* names = nullptr;

  // By name, for the few variables a rule has; an unknown name is a bug.
  ClassId operator[](std::string_view class_variable) const;
  BoundHead head(std::string_view head_variable) const;
};

using Condition = std::function<bool(const EGraph&, const Match&)>;
// Returns the class to merge with the root, if any. May add nodes and merge classes, never rebuild.
using ApplyFunction = std::function<std::optional<ClassId>(EGraph&, const Match&)>;

struct Rule {
  std::string name;
  // One or more; they share variables. Patterns that share none make all combinations.
  std::vector<PatternTerm> patterns;
  // Empty: always. Called when the match is applied.
  Condition condition;
  // Exactly one of the two.
  std::optional<PatternTerm> result;
  ApplyFunction apply;
  // Incremental rules see a match again only when a matched node, its class or its children
  // changed, or the analysis facts of one of these. Turn it off for a condition or function that
  // looks deeper into the e-graph: the rule then sees all matches every time.
  bool incremental = true;
};

// --- compiled form ---

// One pattern node: a row (head, children, class) of registers.
struct Atom {
  bool is_family = false;
  uint32_t symbol = kNone;
  uint32_t class_register = 0;
  std::vector<uint32_t> child_registers;
  uint32_t head_variable = kNone;
  bool open = false;
};

// How one atom of a plan is found, given what earlier steps bound.
struct Step {
  enum class Kind {
    kScan,   // all nodes of the head: first steps, and patterns that share nothing
    kDown,   // the class is known: its nodes
    kUp,     // a child is known: its parents
    kProbe,  // head and all children are known: at most one node
  };
  struct Child {
    uint32_t position;
    uint32_t reg;
    bool bind;  // else compare
    // Of a class bound here: an atom still to come that needs nodes in it, or kNone.
    uint32_t needs_atom;
  };
  Kind kind = Kind::kScan;
  uint32_t atom = 0;
  uint32_t from_register = 0;  // kDown: the class; kUp: the child
  uint32_t from_position = 0;  // kUp: where the parent has the child
  bool bind_class = true;
  bool bind_head = true;  // for atoms with a head variable
  std::vector<Child> children;
};

// One node of a result: registers of its operands; it writes register `target`.
struct BuildStep {
  Head head = kNone;  // kNone: from head_variable
  uint32_t head_variable = kNone;
  std::vector<uint32_t> operands;
  uint32_t target = 0;
  bool ground = false;  // the same node for every match
};

struct CompiledRule {
  Rule rule;
  MatchNames names;
  std::vector<Atom> atoms;
  // plans[i] starts with atom i.
  std::vector<std::vector<Step>> plans;
  uint32_t registers = 0;  // the first names.classes.size() are the class variables
  std::vector<BuildStep> build;
  uint32_t build_registers = 0;  // class variables first, then targets
  uint32_t result_register = 0;

  // Words of a stored match: root, class variables, (head, node) of each head variable.
  uint32_t match_words() const {
    return static_cast<uint32_t>(1 + names.classes.size() + 2 * names.heads.size());
  }
};

// kInvalidInput names the rule and what is wrong: no pattern, a pattern that is a bare variable, a
// result with a variable that no pattern binds, both or neither of result and apply.
common::Result<CompiledRule> compile_rule(Rule rule);
common::Result<std::vector<CompiledRule>> compile_rules(std::vector<Rule> rules);

// Rule from text: `patterns` as of parse_terms, `result` as of parse_term.
common::Result<Rule> rewrite(std::string name, std::string_view patterns, std::string_view result,
                             const SymbolResolver& resolve, Condition condition = {});

}  // namespace coordinator
