// The rewrite rules, by family. Each rule states an equality that holds for every input.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/egraph/rule.h"
#include "coordinator/rules/rewriter.h"

namespace coordinator {

// Makes rules whose code works on a Rewriter. Patterns are as in coordinator/egraph/pattern.h, with
// heads matched by family: "(binary.mul@ ?a ?b)", "(view@v ?x)".
class RuleMaker {
 public:
  // Borrows the table and the symbols, which must outlive the rules.
  RuleMaker(HeadTable& heads, const std::vector<common::SymbolRange>& symbols)
      : heads_(heads), symbols_(symbols) {}

  using Code = std::function<std::optional<ClassId>(Rewriter&, const Match&)>;
  // The code returns what equals the match's root, or nothing when the rule does not apply.
  // deep: the code looks further into the e-graph than the pattern does.
  void rule(std::string name, std::string_view pattern, Code code, bool deep = false);

  // The attributes of the node that a head variable matched.
  const common::Node& node(const Match& match, std::string_view head_variable) const {
    return heads_.node(match.head(head_variable).head);
  }
  std::vector<Rule> take() { return std::move(rules_); }

 private:
  HeadTable& heads_;
  const std::vector<common::SymbolRange>& symbols_;
  std::vector<Rule> rules_;
};

// x + 0, x * 1, casts of casts, views of views, work before broadcasting rather than after.
void add_algebra_rules(RuleMaker& maker);
// Sums of products are contractions; contractions are generated tiles or library calls.
void add_contraction_rules(RuleMaker& maker);
// Softmax, layer norm and RMS norm from their parts.
void add_normalisation_rules(RuleMaker& maker);

// All families.
std::vector<Rule> all_rules(HeadTable& heads, const std::vector<common::SymbolRange>& symbols);

}  // namespace coordinator
