#include "coordinator/rules/rule_set.h"

namespace coordinator {

void RuleMaker::rule(std::string name, std::string_view pattern, Code code, bool deep) {
  auto resolve = [this](std::string_view symbol, bool family) -> std::optional<uint32_t> {
    if (!family) return std::nullopt;
    return heads_.family_named(symbol);
  };
  auto terms = parse_terms(pattern, resolve);
  LFARM_CHECK(terms.ok(), "rule " + name + ": " + (terms.ok() ? "" : terms.error().message));
  Rule rule;
  rule.name = std::move(name);
  rule.patterns = *std::move(terms);
  rule.incremental = !deep;
  rule.apply = [this_heads = &heads_, symbols = &symbols_, code = std::move(code)](
                   EGraph& graph, const Match& match) -> std::optional<ClassId> {
    Rewriter rewriter(graph, *this_heads, *symbols);
    return code(rewriter, match);
  };
  rules_.push_back(std::move(rule));
}

std::vector<Rule> all_rules(HeadTable& heads, const std::vector<common::SymbolRange>& symbols) {
  // The rules' code keeps a pointer to its maker for reading attributes, so the maker lives with
  // the rules.
  auto maker = std::make_shared<RuleMaker>(heads, symbols);
  add_algebra_rules(*maker);
  add_contraction_rules(*maker);
  add_normalisation_rules(*maker);
  std::vector<Rule> rules = maker->take();
  for (Rule& rule : rules) {
    rule.apply = [maker, apply = std::move(rule.apply)](EGraph& graph, const Match& match) {
      return apply(graph, match);
    };
  }
  return rules;
}

}  // namespace coordinator
