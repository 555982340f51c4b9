// The e-graph suites that published engines are measured on, with their rules and start terms:
// mathmicroN (N iterations), acN and chainN (to saturation), all under simple scheduling.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/egraph/pattern.h"
#include "coordinator/egraph/rule.h"
#include "coordinator/egraph/runner.h"

namespace egraph_suites {

// Numbers names in order of first use. A family's name is the part before '['.
class Names {
 public:
  uint32_t number(std::string_view name) {
    auto [it, fresh] =
        numbers_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
    if (fresh) names_.emplace_back(name);
    return it->second;
  }
  std::string name(uint32_t number) const { return names_[number]; }
  uint32_t family_of(uint32_t head) {
    std::string name = names_[head];
    return number(cat_family(name.substr(0, name.find('['))));
  }
  coordinator::SymbolResolver resolver() {
    return [this](std::string_view name, bool family) -> std::optional<uint32_t> {
      return number(family ? cat_family(name) : std::string(name));
    };
  }
  coordinator::EGraphOptions options(coordinator::Analysis* analysis = nullptr) {
    coordinator::EGraphOptions options;
    options.family_of = [this](coordinator::Head head) { return family_of(head); };
    options.analysis = analysis;
    return options;
  }

 private:
  static std::string cat_family(std::string_view name) { return common::cat("family ", name); }
  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
};

struct Suite {
  std::string name;
  std::vector<std::string> starts;
  struct RuleText {
    std::string pattern, result;
  };
  std::vector<RuleText> rules;
  uint64_t iterations = 1'000'000;
};

inline std::vector<std::string> math_starts() {
  return {"(i (ln x) x)",
          "(i (+ x (cos x)) x)",
          "(i (* (cos x) x) x)",
          "(d x (+ 1 (* 2 x)))",
          "(d x (- (pow x 3) (* 7 (pow x 2))))",
          "(+ (* y (+ x y)) (- (+ x 2) (+ x x)))",
          "(/ 1 (- (/ (+ 1 (sqrt five)) 2) (/ (- 1 (sqrt five)) 2)))"};
}

inline std::vector<Suite::RuleText> math_rules() {
  return {{"(+ ?a ?b)", "(+ ?b ?a)"},
          {"(* ?a ?b)", "(* ?b ?a)"},
          {"(+ ?a (+ ?b ?c))", "(+ (+ ?a ?b) ?c)"},
          {"(* ?a (* ?b ?c))", "(* (* ?a ?b) ?c)"},
          {"(- ?a ?b)", "(+ ?a (* -1 ?b))"},
          {"(+ ?a 0)", "?a"},
          {"(* ?a 0)", "0"},
          {"(* ?a 1)", "?a"},
          {"(- ?a ?a)", "0"},
          {"(* ?a (+ ?b ?c))", "(+ (* ?a ?b) (* ?a ?c))"},
          {"(+ (* ?a ?b) (* ?a ?c))", "(* ?a (+ ?b ?c))"},
          {"(* (pow ?a ?b) (pow ?a ?c))", "(pow ?a (+ ?b ?c))"},
          {"(pow ?x 1)", "?x"},
          {"(pow ?x 2)", "(* ?x ?x)"},
          {"(d ?x (+ ?a ?b))", "(+ (d ?x ?a) (d ?x ?b))"},
          {"(d ?x (* ?a ?b))", "(+ (* ?a (d ?x ?b)) (* ?b (d ?x ?a)))"},
          {"(d ?x (sin ?x))", "(cos ?x)"},
          {"(d ?x (cos ?x))", "(* -1 (sin ?x))"},
          {"(i 1 ?x)", "?x"},
          {"(i (cos ?x) ?x)", "(sin ?x)"},
          {"(i (sin ?x) ?x)", "(* -1 (cos ?x))"},
          {"(i (+ ?f ?g) ?x)", "(+ (i ?f ?x) (i ?g ?x))"},
          {"(i (- ?f ?g) ?x)", "(- (i ?f ?x) (i ?g ?x))"},
          {"(i (* ?a ?b) ?x)", "(- (* ?a (i ?b ?x)) (i (* (d ?x ?a) (i ?b ?x)) ?x))"}};
}

// "mathmicro10", "ac8", "chain1000"; empty for another name.
inline std::optional<Suite> make_suite(const std::string& name) {
  size_t digits = name.find_first_of("0123456789");
  if (digits == std::string::npos) return std::nullopt;
  std::string kind = name.substr(0, digits);
  uint64_t n = 0;
  for (char c : name.substr(digits)) {
    if (c < '0' || c > '9' || n > 1'000'000) return std::nullopt;
    n = n * 10 + static_cast<uint64_t>(c - '0');
  }
  Suite suite;
  suite.name = name;
  if (kind == "mathmicro") {
    suite.starts = math_starts();
    suite.rules = math_rules();
    suite.iterations = n;
  } else if (kind == "ac" && n > 0) {
    std::string sum = common::cat(n);
    for (uint64_t i = n - 1; i > 0; --i) sum = common::cat("(+ ", i, " ", sum, ")");
    suite.starts = {sum};
    suite.rules = {{"(+ ?a ?b)", "(+ ?b ?a)"}, {"(+ ?a (+ ?b ?c))", "(+ (+ ?a ?b) ?c)"}};
  } else if (kind == "chain") {
    suite.rules = {{"(F (D ?x))", "(D (G ?x))"}};  // the start is too deep for text
  } else {
    return std::nullopt;
  }
  return suite;
}

// Loads the suite's start terms and compiles its rules.
struct Loaded {
  Names names;
  std::optional<coordinator::EGraph> graph;
  std::vector<coordinator::CompiledRule> rules;
};

inline common::Status load(const Suite& suite, Loaded& out, bool explanations = false) {
  auto resolve = out.names.resolver();
  coordinator::EGraphOptions options = out.names.options();
  options.explanations = explanations;
  out.graph.emplace(std::move(options));
  for (const std::string& start : suite.starts) {
    LFARM_ASSIGN_OR_RETURN(coordinator::PatternTerm term, coordinator::parse_term(start, resolve));
    LFARM_ASSIGN_OR_RETURN(coordinator::ClassId cls, coordinator::add_term(*out.graph, term));
    (void)cls;
  }
  if (suite.name.compare(0, 5, "chain") == 0) {
    coordinator::ClassId cls = out.graph->add(out.names.number("X"), {});
    cls = out.graph->add(out.names.number("D"), {cls});
    for (int left = std::stoi(suite.name.substr(5)); left > 0; --left) {
      cls = out.graph->add(out.names.number("F"), {cls});
    }
  }
  std::vector<coordinator::Rule> rules;
  for (const Suite::RuleText& text : suite.rules) {
    LFARM_ASSIGN_OR_RETURN(coordinator::Rule rule,
                           coordinator::rewrite(common::cat(text.pattern, " => ", text.result),
                                                text.pattern, text.result, resolve));
    rules.push_back(std::move(rule));
  }
  LFARM_ASSIGN_OR_RETURN(out.rules, coordinator::compile_rules(std::move(rules)));
  return {};
}

// Runs a suite by name, as the figures of other engines were taken. kInvalidInput for another name.
inline common::Result<coordinator::RunReport> run_suite(const std::string& name,
                                                        const common::Clock& clock,
                                                        bool explanations = false) {
  std::optional<Suite> suite = make_suite(name);
  if (!suite) {
    return common::invalid_input(
        common::cat("no e-graph suite ", name, "; use mathmicroN, acN or chainN"));
  }
  Loaded loaded;
  LFARM_RETURN_IF_ERROR(load(*suite, loaded, explanations));
  coordinator::RunLimits limits;
  limits.iterations = suite->iterations;
  limits.nodes = 100'000'000;
  limits.seconds = 600;
  limits.bytes = uint64_t{16} << 30;
  coordinator::Scheduling simple;
  simple.kind = coordinator::Scheduling::Kind::kSimple;
  coordinator::Runner runner(*loaded.graph, loaded.rules, clock);
  return runner.run(limits, simple);
}

}  // namespace egraph_suites
