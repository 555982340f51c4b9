// Patterns over e-nodes, as values and as text: what rules look for and what they build.
//
//   ?x                     a variable: any class; the same name is the same class; ?_ is anonymous
//   (add ?a (mul ?b two))  the head named `add` with these children; `two` is a head without any
//   (view@v ?x)            any head of the family `view`; v names the matched head (view@ doesn't)
//   (concat@c ?x ...)      the head may have more children
//   ?m:(mul ?a ?b)         names the class of the node
//   (@v ?x)                in results only: the head that v matched
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

struct PatternTerm {
  enum class Kind {
    kVariable,   // class_variable only
    kHead,       // symbol is a Head
    kFamily,     // symbol is a family; binds head_variable unless it is empty
    kBoundHead,  // in results: the head that head_variable matched
  };
  Kind kind = Kind::kVariable;
  uint32_t symbol = kNone;
  std::string head_variable;
  // The name of the class: of any class for kVariable, of the node's class else ("" = unnamed).
  std::string class_variable;
  std::vector<PatternTerm> children;
  bool open = false;  // matches nodes with further children

  friend bool operator==(const PatternTerm&, const PatternTerm&) = default;
};

PatternTerm variable(std::string name);
PatternTerm term(Head head, std::vector<PatternTerm> children = {});
PatternTerm family_term(uint32_t family, std::string head_variable,
                        std::vector<PatternTerm> children = {});
PatternTerm bound_term(std::string head_variable, std::vector<PatternTerm> children = {});

// Gives the number of a head's or a family's name; empty when there is none.
using SymbolResolver = std::function<std::optional<uint32_t>(std::string_view name, bool family)>;

// Parses terms that follow one another. A name is any run of characters other than spaces and
// parentheses, and may hold anything inside [brackets]. kInvalidInput names the place.
common::Result<std::vector<PatternTerm>> parse_terms(std::string_view text,
                                                     const SymbolResolver& resolve);
// Exactly one term.
common::Result<PatternTerm> parse_term(std::string_view text, const SymbolResolver& resolve);

// Adds a term without variables. kInvalidInput when it has one.
common::Result<ClassId> add_term(EGraph& graph, const PatternTerm& term);

}  // namespace coordinator
