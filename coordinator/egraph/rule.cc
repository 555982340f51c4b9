#include "coordinator/egraph/rule.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/check.h"

namespace coordinator {

using common::cat;
using common::Error;
using common::invalid_input;
using common::Result;
using common::Status;

namespace {

uint32_t index_of(const std::vector<std::string>& names, std::string_view name) {
  auto it = std::find(names.begin(), names.end(), name);
  return it == names.end() ? kNone : static_cast<uint32_t>(it - names.begin());
}

uint32_t index_or_add(std::vector<std::string>& names, const std::string& name) {
  uint32_t index = index_of(names, name);
  if (index != kNone) return index;
  names.push_back(name);
  return static_cast<uint32_t>(names.size() - 1);
}

class Compiler {
 public:
  explicit Compiler(CompiledRule& out) : out_(out) {}

  Status run() {
    const Rule& rule = out_.rule;
    if (rule.patterns.empty()) return error("it has no pattern");
    if (rule.result.has_value() == static_cast<bool>(rule.apply)) {
      return error("it needs a result or an apply function, not both");
    }
    for (const PatternTerm& pattern : rule.patterns) {
      if (pattern.kind == PatternTerm::Kind::kVariable) {
        return error("a pattern is a bare variable");
      }
      name_variables(pattern);
    }
    out_.registers = static_cast<uint32_t>(out_.names.classes.size());
    for (const PatternTerm& pattern : rule.patterns) {
      LFARM_RETURN_IF_ERROR(add_atom(pattern));
    }
    for (uint32_t first = 0; first < out_.atoms.size(); ++first) {
      out_.plans.push_back(plan(first));
    }
    out_.build_registers = static_cast<uint32_t>(out_.names.classes.size());
    if (rule.result) {
      LFARM_ASSIGN_OR_RETURN(out_.result_register, add_build_step(*rule.result));
    }
    return {};
  }

 private:
  Error error(std::string_view what) const {
    return invalid_input(cat("rule ", out_.rule.name, ": ", what));
  }

  // Class variables get the first registers, in order of the text.
  void name_variables(const PatternTerm& term) {
    if (!term.class_variable.empty() && term.class_variable != "_") {
      index_or_add(out_.names.classes, term.class_variable);
    }
    if (term.kind == PatternTerm::Kind::kFamily && !term.head_variable.empty() &&
        term.head_variable != "_") {
      index_or_add(out_.names.heads, term.head_variable);
    }
    for (const PatternTerm& child : term.children) name_variables(child);
  }

  uint32_t register_of(const std::string& name) {
    if (name.empty() || name == "_") return out_.registers++;
    return index_of(out_.names.classes, name);
  }

  Status add_atom(const PatternTerm& term) {
    if (term.kind == PatternTerm::Kind::kBoundHead) {
      return error("(@name ...) stands in results only");
    }
    size_t index = out_.atoms.size();
    out_.atoms.emplace_back();
    Atom atom;
    atom.is_family = term.kind == PatternTerm::Kind::kFamily;
    atom.symbol = term.symbol;
    atom.open = term.open;
    if (atom.is_family) atom.head_variable = index_of(out_.names.heads, term.head_variable);
    atom.class_register = register_of(term.class_variable);
    for (const PatternTerm& child : term.children) {
      if (child.kind == PatternTerm::Kind::kVariable) {
        atom.child_registers.push_back(register_of(child.class_variable));
        continue;
      }
      size_t child_index = out_.atoms.size();
      LFARM_RETURN_IF_ERROR(add_atom(child));
      atom.child_registers.push_back(out_.atoms[child_index].class_register);
    }
    out_.atoms[index] = std::move(atom);
    return {};
  }

  // Greedy join order from one atom: a probe costs least, then going down, then up; a scan, which
  // multiplies, comes last.
  std::vector<Step> plan(uint32_t first) const {
    std::vector<bool> bound(out_.registers, false);
    std::vector<bool> head_bound(out_.names.heads.size(), false);
    std::vector<bool> placed(out_.atoms.size(), false);
    std::vector<Step> steps;
    for (uint32_t next = first; next != kNone; next = cheapest(placed, bound)) {
      const Atom& atom = out_.atoms[next];
      Step step;
      step.atom = next;
      if (next != first) choose_way(atom, bound, step);
      step.bind_class = !bound[atom.class_register];
      // Set the class first: an atom whose class is its own child compares the child with it.
      bound[atom.class_register] = true;
      for (uint32_t i = 0; i < atom.child_registers.size(); ++i) {
        uint32_t reg = atom.child_registers[i];
        step.children.push_back({i, reg, !bound[reg], kNone});
        bound[reg] = true;
      }
      if (atom.head_variable != kNone) {
        step.bind_head = !head_bound[atom.head_variable];
        head_bound[atom.head_variable] = true;
      }
      placed[next] = true;
      for (Step::Child& child : step.children) {
        if (child.bind) child.needs_atom = atom_of_class(child.reg, placed);
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

  uint32_t atom_of_class(uint32_t reg, const std::vector<bool>& placed) const {
    for (uint32_t i = 0; i < out_.atoms.size(); ++i) {
      if (!placed[i] && out_.atoms[i].class_register == reg) return i;
    }
    return kNone;
  }

  static bool can_probe(const Atom& atom, const std::vector<bool>& bound) {
    return !atom.is_family && !atom.open &&
           std::all_of(atom.child_registers.begin(), atom.child_registers.end(),
                       [&](uint32_t reg) { return bound[reg]; });
  }

  uint32_t cheapest(const std::vector<bool>& placed, const std::vector<bool>& bound) const {
    uint32_t best = kNone;
    int best_price = 4;
    for (uint32_t i = 0; i < out_.atoms.size(); ++i) {
      if (placed[i]) continue;
      const Atom& atom = out_.atoms[i];
      int price = 3;
      if (can_probe(atom, bound)) {
        price = 0;
      } else if (bound[atom.class_register]) {
        price = 1;
      } else if (std::any_of(atom.child_registers.begin(), atom.child_registers.end(),
                             [&](uint32_t reg) { return bound[reg]; })) {
        price = 2;
      }
      if (price < best_price) {
        best_price = price;
        best = i;
      }
    }
    return best;
  }

  void choose_way(const Atom& atom, const std::vector<bool>& bound, Step& step) const {
    if (can_probe(atom, bound)) {
      step.kind = Step::Kind::kProbe;
    } else if (bound[atom.class_register]) {
      step.kind = Step::Kind::kDown;
      step.from_register = atom.class_register;
    } else {
      for (uint32_t i = 0; i < atom.child_registers.size(); ++i) {
        if (!bound[atom.child_registers[i]]) continue;
        step.kind = Step::Kind::kUp;
        step.from_register = atom.child_registers[i];
        step.from_position = i;
        return;
      }
    }
  }

  // Gives the register of the term's class; equal terms are built once.
  Result<uint32_t> add_build_step(const PatternTerm& term) {
    if (term.kind == PatternTerm::Kind::kVariable) {
      uint32_t index = index_of(out_.names.classes, term.class_variable);
      if (index == kNone) return error(cat("no pattern binds ?", term.class_variable));
      return index;
    }
    if (term.open || !term.class_variable.empty()) {
      return error("\"...\" and named classes stand in patterns only");
    }
    BuildStep step;
    step.ground = true;
    if (term.kind == PatternTerm::Kind::kBoundHead) {
      step.head_variable = index_of(out_.names.heads, term.head_variable);
      step.ground = false;
      if (step.head_variable == kNone) return error(cat("no pattern binds @", term.head_variable));
    } else if (term.kind == PatternTerm::Kind::kHead) {
      step.head = term.symbol;
    } else {
      return error("a result names its heads; a family is no head");
    }
    for (const PatternTerm& child : term.children) {
      LFARM_ASSIGN_OR_RETURN(uint32_t reg, add_build_step(child));
      step.operands.push_back(reg);
      step.ground = step.ground && is_ground(reg);
    }
    for (const BuildStep& other : out_.build) {
      if (other.head == step.head && other.head_variable == step.head_variable &&
          other.operands == step.operands) {
        return other.target;
      }
    }
    step.target = out_.build_registers++;
    out_.build.push_back(step);
    return step.target;
  }

  bool is_ground(uint32_t reg) const {
    return std::any_of(out_.build.begin(), out_.build.end(),
                       [&](const BuildStep& step) { return step.target == reg && step.ground; });
  }

  CompiledRule& out_;
};

}  // namespace

ClassId Match::operator[](std::string_view class_variable) const {
  uint32_t index = index_of(names->classes, class_variable);
  LFARM_CHECK(index != kNone, cat("the rule binds no ?", class_variable));
  return classes[index];
}

BoundHead Match::head(std::string_view head_variable) const {
  uint32_t index = index_of(names->heads, head_variable);
  LFARM_CHECK(index != kNone, cat("the rule binds no @", head_variable));
  return heads[index];
}

Result<CompiledRule> compile_rule(Rule rule) {
  CompiledRule out;
  out.rule = std::move(rule);
  LFARM_RETURN_IF_ERROR(Compiler(out).run());
  return out;
}

Result<std::vector<CompiledRule>> compile_rules(std::vector<Rule> rules) {
  std::vector<CompiledRule> out;
  for (Rule& rule : rules) {
    LFARM_ASSIGN_OR_RETURN(CompiledRule compiled, compile_rule(std::move(rule)));
    out.push_back(std::move(compiled));
  }
  return out;
}

Result<Rule> rewrite(std::string name, std::string_view patterns, std::string_view result,
                     const SymbolResolver& resolve, Condition condition) {
  Rule rule;
  rule.name = std::move(name);
  LFARM_ASSIGN_OR_RETURN(rule.patterns, parse_terms(patterns, resolve));
  LFARM_ASSIGN_OR_RETURN(PatternTerm built, parse_term(result, resolve));
  rule.result = std::move(built);
  rule.condition = std::move(condition);
  return rule;
}

}  // namespace coordinator
