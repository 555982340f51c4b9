// The rewrite rules, by family. Each rule states an equality, and how far it may be taken
// literally.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/egraph/rule.h"
#include "coordinator/rules/rewriter.h"

namespace coordinator {

// What both sides of a rule have in common.
enum class Claim {
  kBits,  // every bit of every element, NaN and infinities included, but for the sign of zero
  // What exact arithmetic gives; intermediate results may round, or overflow, elsewhere. Weights
  // are finite numbers.
  kRounding,
  kFinite,  // the same, as long as all values are finite and no intermediate overflows
};

// Which claims suffice. kStrict is the numerics policy "strict": all but kFinite.
enum class Numerics { kStrict, kRelaxed };

struct RuleInfo {
  std::string name;
  std::string family;
  Claim claim = Claim::kBits;
};

// Makes rules whose code works on a Rewriter. Patterns are as in coordinator/egraph/pattern.h, with
// heads matched by family: "(binary.mul@ ?a ?b)", "(view@v ?x)".
class RuleMaker {
 public:
  // Borrows all, which must outlive the rules; the analysis, which may be null, is the e-graph's.
  RuleMaker(HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
            const LoadTimeAnalysis* load_time = nullptr)
      : heads_(heads), symbols_(symbols), load_time_(load_time) {}

  void family(std::string name) { family_ = std::move(name); }

  // Returns what equals the match's root, or nothing when the rule does not apply.
  using Code = std::function<std::optional<ClassId>(Rewriter&, const Match&)>;
  // Incremental: the code looks at the matched nodes only. Deep: it looks further into the e-graph,
  // and sees all matches every time.
  enum class Reach { kMatch, kDeep };
  void rule(std::string name, Claim claim, std::string_view pattern, Code code,
            Reach reach = Reach::kMatch);

  // `where`: class variables that must hold a constant, all of whose elements have this value.
  struct Where {
    std::string_view variable;
    double value;
  };
  // An elementwise rule: `result` is a term of unary and binary operations, select, class variables
  // and numbers: "(binary.mul ?x (binary.mul ?x 0.5))". Numbers take the type of the root's first
  // operand, comparisons are bool, all else has the type of its operands.
  void rewrite(std::string name, Claim claim, std::string_view pattern, std::string_view result,
               std::initializer_list<Where> where = {});

  // The attributes of the node that a head variable matched.
  const common::Node& node(const Match& match, std::string_view head_variable) const {
    return heads_.node(match.head(head_variable).head);
  }
  bool is_abstract(const Match& match, std::string_view head_variable) const {
    return heads_.lowering(match.head(head_variable).head) == Lowering::kAbstract;
  }
  const std::vector<RuleInfo>& infos() const { return infos_; }
  std::vector<Rule> take() { return std::move(rules_); }

 private:
  HeadTable& heads_;
  const std::vector<common::SymbolRange>& symbols_;
  const LoadTimeAnalysis* load_time_;
  std::string family_;
  std::vector<Rule> rules_;
  std::vector<RuleInfo> infos_;  // one per rule
};

// One function a family, in the file of that name.

// x + 0, x * 1, x and true, comparisons of a value with itself.
void add_algebra_rules(RuleMaker& maker);
// Powers, quotients and roots by cheaper operations.
void add_strength_rules(RuleMaker& maker);
// Casts of casts, views of views, gathers at known places; work before broadcasting, not after.
void add_movement_rules(RuleMaker& maker);
// Sums of products are contractions; contractions are generated tiles or library calls.
void add_contraction_rules(RuleMaker& maker);
// Scales that depend on weights alone are multiplied into weights.
void add_folding_rules(RuleMaker& maker);
// Contractions of one operand with several weights are slices of one.
void add_packing_rules(RuleMaker& maker);
// Operands of contractions are copied into an order that suits them.
void add_layout_rules(RuleMaker& maker);
// Contractions of a softmax are attention, which one kernel computes.
void add_attention_rules(RuleMaker& maker);
// Softmax and log-softmax from their parts.
void add_softmax_rules(RuleMaker& maker);
// RMS, layer and group norm from their parts.
void add_norm_rules(RuleMaker& maker);
// Sums and products in another order.
void add_reassociation_rules(RuleMaker& maker);
// Fourier transforms as products of shorter ones.
void add_fourier_rules(RuleMaker& maker);
// Sums over few experts, gathers of what is computed.
void add_routing_rules(RuleMaker& maker);
// Running sums of what is known.
void add_scan_rules(RuleMaker& maker);

// All families, without the rules whose claim the policy does not take. Without the e-graph's
// analysis none that moves work to where weights are bound.
std::vector<Rule> all_rules(HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
                            Numerics numerics = Numerics::kStrict,
                            const LoadTimeAnalysis* load_time = nullptr);
// The same rules by name, family and claim.
std::vector<RuleInfo> rule_infos(Numerics numerics = Numerics::kRelaxed);

}  // namespace coordinator
