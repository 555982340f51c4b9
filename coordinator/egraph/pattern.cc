#include "coordinator/egraph/pattern.h"

#include <utility>

#include "common/base/cat.h"

namespace coordinator {

using common::cat;
using common::Error;
using common::invalid_input;
using common::Result;

PatternTerm variable(std::string name) {
  PatternTerm out;
  out.class_variable = std::move(name);
  return out;
}

PatternTerm term(Head head, std::vector<PatternTerm> children) {
  PatternTerm out;
  out.kind = PatternTerm::Kind::kHead;
  out.symbol = head;
  out.children = std::move(children);
  return out;
}

PatternTerm family_term(uint32_t family, std::string head_variable,
                        std::vector<PatternTerm> children) {
  PatternTerm out;
  out.kind = PatternTerm::Kind::kFamily;
  out.symbol = family;
  out.head_variable = std::move(head_variable);
  out.children = std::move(children);
  return out;
}

PatternTerm bound_term(std::string head_variable, std::vector<PatternTerm> children) {
  PatternTerm out;
  out.kind = PatternTerm::Kind::kBoundHead;
  out.head_variable = std::move(head_variable);
  out.children = std::move(children);
  return out;
}

namespace {

constexpr int kMaxDepth = 200;

class Parser {
 public:
  Parser(std::string_view text, const SymbolResolver& resolve) : text_(text), resolve_(resolve) {}

  Result<std::vector<PatternTerm>> all() {
    std::vector<PatternTerm> out;
    for (skip_space(); at_ < text_.size(); skip_space()) {
      LFARM_ASSIGN_OR_RETURN(PatternTerm next, one(0));
      out.push_back(std::move(next));
    }
    return out;
  }

 private:
  Error error(std::string_view what) const {
    return invalid_input(cat("pattern, character ", at_, ": ", what, " in \"", text_, "\""));
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool accept(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // Up to a space or parenthesis; after "?" a colon ends the name too.
  std::string_view name(bool of_variable) {
    size_t begin = at_;
    int brackets = 0;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '[') ++brackets;
      if (c == ']' && brackets > 0) --brackets;
      if (brackets > 0) continue;
      if (c == ' ' || c == '\n' || c == '\t' || c == '(' || c == ')') break;
      if (of_variable && c == ':') break;
    }
    return text_.substr(begin, at_ - begin);
  }

  Result<PatternTerm> one(int depth) {
    if (depth > kMaxDepth) return error("too deeply nested");
    skip_space();
    if (accept('?')) {
      std::string bound(name(true));
      if (bound.empty()) return error("a variable needs a name");
      if (!accept(':')) return variable(std::move(bound));
      LFARM_ASSIGN_OR_RETURN(PatternTerm inner, one(depth + 1));
      if (!inner.class_variable.empty()) return error("a class has one name");
      inner.class_variable = std::move(bound);
      return inner;
    }
    if (!accept('(')) return symbol();
    skip_space();
    LFARM_ASSIGN_OR_RETURN(PatternTerm out, symbol());
    for (skip_space(); !accept(')'); skip_space()) {
      if (at_ == text_.size()) return error("a parenthesis is not closed");
      if (text_.substr(at_, 3) == "...") {
        at_ += 3;
        skip_space();
        if (!accept(')')) return error("\"...\" stands last");
        out.open = true;
        return out;
      }
      LFARM_ASSIGN_OR_RETURN(PatternTerm child, one(depth + 1));
      out.children.push_back(std::move(child));
    }
    return out;
  }

  Result<PatternTerm> symbol() {
    std::string_view spelled = name(false);
    if (spelled.empty()) return error("expected a name");
    size_t at = spelled.find('@');
    if (at == 0) return bound_term(std::string(spelled.substr(1)));
    bool family = at != std::string_view::npos;
    std::optional<uint32_t> number = resolve_(spelled.substr(0, at), family);
    if (!number) return error(cat("unknown ", family ? "family " : "head ", spelled));
    if (!family) return term(*number);
    return family_term(*number, std::string(spelled.substr(at + 1)));
  }

  std::string_view text_;
  const SymbolResolver& resolve_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<PatternTerm>> parse_terms(std::string_view text, const SymbolResolver& resolve) {
  return Parser(text, resolve).all();
}

Result<PatternTerm> parse_term(std::string_view text, const SymbolResolver& resolve) {
  LFARM_ASSIGN_OR_RETURN(std::vector<PatternTerm> all, parse_terms(text, resolve));
  if (all.size() != 1) {
    return invalid_input(
        cat("pattern: expected one term, found ", all.size(), " in \"", text, "\""));
  }
  return std::move(all[0]);
}

Result<ClassId> add_term(EGraph& graph, const PatternTerm& term) {
  if (term.kind != PatternTerm::Kind::kHead) {
    return invalid_input("add_term: the term has variables; only plain heads can be added");
  }
  std::vector<ClassId> children;
  for (const PatternTerm& child : term.children) {
    LFARM_ASSIGN_OR_RETURN(ClassId cls, add_term(graph, child));
    children.push_back(cls);
  }
  return graph.add(term.symbol, children);
}

}  // namespace coordinator
