#include "coordinator/rules/rule_set.h"

#include <charconv>
#include <map>
#include <utility>

#include "common/base/cat.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::Op;
using common::UnaryOp;

// What the names of an elementwise result stand for.
struct Symbol {
  enum class Kind { kUnary, kBinary, kSelect, kNumber } kind{};
  int op = 0;
  double number = 0;
};

std::optional<Symbol> symbol_named(std::string_view name) {
  for (int k = 0; k < common::kUnaryOpCount; ++k) {
    if (name == common::cat("unary.", common::unary_name(static_cast<UnaryOp>(k)))) {
      return Symbol{Symbol::Kind::kUnary, k, 0};
    }
  }
  for (int k = 0; k < common::kBinaryOpCount; ++k) {
    if (name == common::cat("binary.", common::binary_name(static_cast<BinaryOp>(k)))) {
      return Symbol{Symbol::Kind::kBinary, k, 0};
    }
  }
  if (name == "select") return Symbol{Symbol::Kind::kSelect, 0, 0};
  double number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return Symbol{Symbol::Kind::kNumber, 0, number};
}

// A parsed result, and how to build it for a match.
struct Template {
  PatternTerm term;
  std::vector<Symbol> symbols;  // by PatternTerm::symbol

  ClassId build(const PatternTerm& at, Rewriter& r, const Match& match, common::DType dtype,
                const common::Shape& shape) const {
    if (at.kind == PatternTerm::Kind::kVariable) return match[at.class_variable];
    const Symbol& symbol = symbols[at.symbol];
    if (symbol.kind == Symbol::Kind::kNumber) return r.scalar(dtype, symbol.number, shape);
    std::vector<ClassId> operands;
    for (const PatternTerm& child : at.children) {
      operands.push_back(build(child, r, match, dtype, shape));
    }
    if (symbol.kind == Symbol::Kind::kUnary) {
      return r.unary(static_cast<UnaryOp>(symbol.op), operands[0]);
    }
    if (symbol.kind == Symbol::Kind::kBinary) {
      return r.binary(static_cast<BinaryOp>(symbol.op), operands[0], operands[1]);
    }
    return r.select(operands[0], operands[1], operands[2]);
  }
};

Template parse_template(const std::string& rule, std::string_view result) {
  Template made;
  auto resolve = [&](std::string_view name, bool) -> std::optional<uint32_t> {
    auto symbol = symbol_named(name);
    if (!symbol) return std::nullopt;
    made.symbols.push_back(*symbol);
    return static_cast<uint32_t>(made.symbols.size() - 1);
  };
  auto term = parse_term(result, resolve);
  LFARM_CHECK(term.ok(), "rule " + rule + ": " + (term.ok() ? "" : term.error().message));
  made.term = *std::move(term);
  return made;
}

void add_all_rules(RuleMaker& maker) {
#define LFARM_ADD_RULES(family) \
  maker.begin_family(#family);  \
  add_##family##_rules(maker);
  LFARM_RULE_FAMILIES(LFARM_ADD_RULES)
#undef LFARM_ADD_RULES
}

bool admits(Numerics numerics, const RuleInfo& info) {
  return numerics == Numerics::kRelaxed || info.equivalence != Equivalence::kFinite;
}

}  // namespace

void RuleMaker::rule(std::string name, Equivalence equivalence, std::string_view pattern, Code code,
                     Reach reach) {
  auto resolve = [this](std::string_view symbol, bool family) -> std::optional<uint32_t> {
    if (!family) return std::nullopt;
    return heads_.family_named(symbol);
  };
  auto terms = parse_terms(pattern, resolve);
  LFARM_CHECK(terms.ok(), "rule " + name + ": " + (terms.ok() ? "" : terms.error().message));
  infos_.push_back({name, family_, equivalence});
  Rule rule;
  rule.name = std::move(name);
  rule.patterns = *std::move(terms);
  rule.incremental = reach == Reach::kMatch;
  rule.apply = [this_heads = &heads_, symbols = &symbols_, load_time = load_time_,
                code = std::move(code)](EGraph& graph,
                                        const Match& match) -> std::optional<ClassId> {
    Rewriter rewriter(graph, *this_heads, *symbols, load_time);
    return code(rewriter, match);
  };
  rules_.push_back(std::move(rule));
}

void RuleMaker::rewrite(std::string name, Equivalence equivalence, std::string_view pattern,
                        std::string_view result, std::initializer_list<Where> where) {
  Template made = parse_template(name, result);
  std::vector<std::pair<std::string, double>> constants;
  for (const Where& w : where) constants.emplace_back(w.variable, w.value);
  auto code = [made = std::move(made), constants = std::move(constants)](
                  Rewriter& r, const Match& match) -> std::optional<ClassId> {
    for (const auto& constant : constants) {
      auto value = r.uniform_value(match[constant.first]);
      if (!value || *value != constant.second) return std::nullopt;
    }
    if (made.term.kind == PatternTerm::Kind::kVariable) return match[made.term.class_variable];
    ClassId typed = match.classes.empty() ? match.root : match.classes[0];
    return made.build(made.term, r, match, r.dtype(typed), r.shape(match.root));
  };
  rule(std::move(name), equivalence, pattern, std::move(code));
}

std::vector<Rule> all_rules(HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
                            Numerics numerics, const LoadTimeAnalysis* load_time) {
  // The rules' code keeps a pointer to its maker for reading attributes, so the maker lives with
  // the rules.
  auto maker = std::make_shared<RuleMaker>(heads, symbols, load_time);
  add_all_rules(*maker);
  std::vector<Rule> rules;
  std::vector<Rule> made = maker->take();
  for (size_t k = 0; k < made.size(); ++k) {
    if (!admits(numerics, maker->infos()[k])) continue;
    made[k].apply = [maker, apply = std::move(made[k].apply)](EGraph& graph, const Match& match) {
      return apply(graph, match);
    };
    rules.push_back(std::move(made[k]));
  }
  return rules;
}

std::vector<RuleInfo> rule_infos(Numerics numerics) {
  HeadTable heads;
  std::vector<common::SymbolRange> symbols;
  RuleMaker maker(heads, symbols);
  add_all_rules(maker);
  std::vector<RuleInfo> infos;
  for (const RuleInfo& info : maker.infos()) {
    if (admits(numerics, info)) infos.push_back(info);
  }
  return infos;
}

}  // namespace coordinator
