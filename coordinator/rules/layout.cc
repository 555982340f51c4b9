// Layout: what a contraction reads in an awkward order may be copied first; what depends on weights
// alone is then copied once, when weights are bound.
#include "coordinator/rules/layout.h"

#include <algorithm>
#include <numeric>

#include "common/ir/sizes.h"
#include "coordinator/rules/contraction.h"
#include "coordinator/rules/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::ContractAttr;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

constexpr double kGrowthMax = 16;

// Gives every awkward view of the class a copy as its twin: that merge is the rule's.
void copy_views(Rewriter& r, ClassId cls) {
  for (const Rewriter::Found& found : r.find_all(cls, Op::kView)) {
    ClassId input = found.operands[0];
    const View& view = attr<ViewAttr>(*found.node).view;
    if (r.find(input, Op::kConstant) || r.find(input, Op::kIota) ||
        !is_worth_copying(view, r.shape(input), r.symbols())) {
      continue;
    }
    r.graph().merge(cls, r.add(*found.node, {input}, Lowering::kCopy));
  }
}

// The operand with its last free axis innermost, where a weight's innermost axis is summed over:
// the rows that a register tile reads then lie in memory as they are needed.
std::optional<Factor> turned(Rewriter& r, const ContractAttr& c, ClassId weight,
                             const std::vector<int>& labels) {
  if (!r.at_load(weight) || labels.size() < 2 || has(c.out, labels.back())) return std::nullopt;
  auto free = std::find_if(labels.rbegin(), labels.rend(), [&](int label) {
    return has(c.out, label) && !(has(c.a, label) && has(c.b, label));
  });
  if (free == labels.rend()) return std::nullopt;
  std::vector<int> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  auto axis = static_cast<int>(labels.rend() - free) - 1;
  order.erase(order.begin() + axis);
  order.push_back(axis);
  View view = common::view_permute(r.shape(weight), order);
  // Only ever copied: seen through, it would be what the contraction reads anyway.
  Node node{Op::kView, r.dtype(weight), view.shape, {}, ViewAttr{view}};
  Factor result{r.add(node, {weight}, Lowering::kCopy), {}};
  for (int k : order) result.labels.push_back(labels[static_cast<size_t>(k)]);
  return result;
}

}  // namespace

bool is_worth_copying(const View& view, const Shape& input,
                      const std::vector<common::SymbolRange>& symbols) {
  std::vector<int64_t> sizes = common::representative_sizes(symbols);
  double growth = common::count_elements(view.shape, sizes) /
                  std::max(1.0, common::count_elements(input, sizes));
  auto strided = common::view_strides(view, input, symbols);
  if (!strided) return growth <= 1;
  if (growth > kGrowthMax) return false;
  std::optional<Expr> last;
  for (size_t k = view.shape.size(); k-- > 0;) {
    if (view.shape[k].is_constant(1)) continue;
    if (strided->strides[k].is_constant(0)) return false;
    if (!last) last = strided->strides[k];
  }
  return last && (!view.valid.empty() || !last->is_constant(1));
}

void add_layout_rules(RuleMaker& m) {
  m.rule(
      "copied-operand", Claim::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!reuses_operands(attr<ContractAttr>(m.node(match, "c")))) return std::nullopt;
        copy_views(r, match["a"]);
        copy_views(r, match["b"]);
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
  m.rule("turned-weight", Claim::kBits, "(contract@c ?a ?b)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           const Node& c = m.node(match, "c");
           const auto& labels = attr<ContractAttr>(c);
           if (!m.is_abstract(match, "c") || !reuses_operands(labels)) return std::nullopt;
           Node other = c;
           ClassId a = match["a"], b = match["b"];
           if (auto right = turned(r, labels, b, labels.b)) {
             other.attr = ContractAttr{labels.a, right->labels, labels.out};
             b = right->cls;
           } else if (auto left = turned(r, labels, a, labels.a)) {
             other.attr = ContractAttr{left->labels, labels.b, labels.out};
             a = left->cls;
           } else {
             return std::nullopt;
           }
           return r.add(other, {a, b}, Lowering::kTile);
         });
}

}  // namespace coordinator
