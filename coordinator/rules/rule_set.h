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
#include "coordinator/rules/matching/rewriter.h"

// The families, in the order in which their rules stand. A family NAME is a file NAME.cc, which
// says what its rules do, and add_NAME_rules() in it.
#define LFARM_RULE_FAMILIES(X) \
  X(algebra)                   \
  X(strength)                  \
  X(movement)                  \
  X(contraction)               \
  X(folding)                   \
  X(packing)                   \
  X(layout)                    \
  X(borders)                   \
  X(windows)                   \
  X(softmax)                   \
  X(attention)                 \
  X(norm)                      \
  X(reassociation)             \
  X(fourier)                   \
  X(positions)                 \
  X(routing)                   \
  X(grouping)                  \
  X(rotation)                  \
  X(scan)                      \
  X(selection)                 \
  X(winograd)

namespace coordinator {

// What both sides of a rule have in common.
enum class Equivalence {
  kBits,  // every bit of every element, NaN and infinities included, but for the sign of zero
  // What exact arithmetic gives; intermediate results may round, or overflow, elsewhere. Weights
  // are finite numbers.
  kRounding,
  kDefined,  // the same, wherever the operation says what it gives (see FourierAttr)
  kFinite,   // the same, as long as all values are finite and no intermediate overflows
};

// Which equivalences suffice. kStrict is the numerics policy "strict": all but kFinite.
enum class Numerics { kStrict, kRelaxed };

struct RuleInfo {
  std::string name;
  std::string family;
  Equivalence equivalence = Equivalence::kBits;
};

// Makes rules whose code works on a Rewriter. Patterns are as in coordinator/egraph/pattern.h, with
// heads matched by family: "(binary.mul@ ?a ?b)", "(view@v ?x)".
class RuleMaker {
 public:
  // Borrows all, which must outlive the rules; the analysis, which may be null, is the e-graph's.
  RuleMaker(HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
            const LoadTimeAnalysis* load_time = nullptr)
      : heads_(heads), symbols_(symbols), load_time_(load_time) {}

  // Rules made from here on are of this family.
  void begin_family(std::string name) { family_ = std::move(name); }

  // Returns what equals the match's root, or nothing when the rule does not apply.
  using Code = std::function<std::optional<ClassId>(Rewriter&, const Match&)>;
  // Incremental: the code looks at the matched nodes only. Deep: it looks further into the e-graph,
  // and sees all matches every time.
  enum class Reach { kMatch, kDeep };
  void rule(std::string name, Equivalence equivalence, std::string_view pattern, Code code,
            Reach reach = Reach::kMatch);

  // `where`: class variables that must hold a constant, all of whose elements have this value.
  struct Where {
    std::string_view variable;
    double value;
  };
  // An elementwise rule: `result` is a term of unary and binary operations, select, class variables
  // and numbers: "(binary.mul ?x (binary.mul ?x 0.5))". Numbers take the type of the root's first
  // operand, comparisons are bool, all else has the type of its operands.
  void rewrite(std::string name, Equivalence equivalence, std::string_view pattern,
               std::string_view result, std::initializer_list<Where> where = {});

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

#define LFARM_DECLARE_RULES(family) void add_##family##_rules(RuleMaker& maker);
LFARM_RULE_FAMILIES(LFARM_DECLARE_RULES)
#undef LFARM_DECLARE_RULES

// All families, without the rules whose equivalence the policy does not take. Without the e-graph's
// analysis none that moves work to where weights are bound.
std::vector<Rule> all_rules(HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
                            Numerics numerics = Numerics::kStrict,
                            const LoadTimeAnalysis* load_time = nullptr);
// The same rules by name, family and equivalence.
std::vector<RuleInfo> rule_infos(Numerics numerics = Numerics::kRelaxed);

}  // namespace coordinator
