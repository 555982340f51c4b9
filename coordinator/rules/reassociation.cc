// Reassociation: the same sums and products in another order, where the numerics policy allows it.
#include <algorithm>
#include <cmath>

#include "common/base/contains.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;

// A sum of x * c as c times the sum of x: one product a sum. c is neither so large nor so small
// that one of the orders alone would leave the type's range where the other stays inside by far.
std::optional<ClassId> scale_after_sum(Rewriter& r, const Node& sum, ClassId x, ClassId c) {
  auto value = r.uniform_value(c);
  if (!value || !common::is_float(sum.dtype) || sum.dtype != r.dtype(x)) return std::nullopt;
  if (!(std::abs(*value) > 1e-6 && std::abs(*value) < 1e6)) return std::nullopt;
  return r.binary(BinaryOp::kMul, r.add(sum, {x}), r.scalar(sum.dtype, *value, sum.shape));
}

// Few sums of many elements, such as a channel's over an image whose channels are last: few vectors
// of sums leave most threads without work.
constexpr int64_t kFewSums = 4096, kManyElements = 1024;
// Parts to sum for themselves, at most and at least.
constexpr int64_t kPartsMax = 128, kPartsMin = 8;

// The greatest divisor of n that is at most kPartsMax; 1 where that is below kPartsMin.
int64_t even_parts(int64_t n) {
  for (int64_t parts = std::min(n, kPartsMax); parts >= kPartsMin; --parts) {
    if (n % parts == 0) return parts;
  }
  return 1;
}

// The sums of parts of the first summed axis, and their sum.
std::optional<ClassId> sum_in_parts(Rewriter& r, const Node& sum, ClassId x) {
  const auto& how = attr<common::ReduceAttr>(sum);
  const Shape& shape = r.shape(x);
  auto is_constant = [](const Expr& size) { return size.is_constant(); };
  if (common::is_half(sum.dtype) || how.axes.empty() || !std::ranges::all_of(shape, is_constant)) {
    return std::nullopt;
  }
  const auto rank = static_cast<int>(shape.size());
  if (contains(how.axes, rank - 1)) return std::nullopt;
  const double sums = common::count_elements(sum.shape, {});
  if (sums >= kFewSums || common::count_elements(shape, {}) < sums * kManyElements) {
    return std::nullopt;
  }
  const int first = how.axes.front();
  const int64_t size = shape[static_cast<size_t>(first)].constant(), parts = even_parts(size);
  if (parts == 1) return std::nullopt;
  // Axis `first` becomes parts and steps within them.
  Shape split = shape;
  split[static_cast<size_t>(first)] = parts;
  split.insert(split.begin() + first + 1, Expr(size / parts));
  common::View view = common::view_reshape(shape, split, {});
  common::ReduceAttr within{how.op, {first + 1}};
  for (size_t k = 1; k < how.axes.size(); ++k) within.axes.push_back(how.axes[k] + 1);
  Shape kept;
  for (int axis = 0; axis <= rank; ++axis) {
    if (!contains(within.axes, axis)) kept.push_back(split[static_cast<size_t>(axis)]);
  }
  const ClassId each = r.add(Node{Op::kReduce, sum.dtype, kept, {}, within}, {r.view(x, view)});
  return r.add(Node{Op::kReduce, sum.dtype, sum.shape, {}, common::ReduceAttr{how.op, {first}}},
               {each});
}

// (a b) c as a (b c), of three matrices: k runs over the columns of a, n over those of b.
class MatrixChain {
 public:
  MatrixChain(Rewriter& r, const Node& inner, const Node& outer)
      : r_(r), node_(outer), outer_(attr<ContractAttr>(outer)) {
    // The inner contraction in the outer one's labels; what it sums gets a fresh one.
    const auto& labels = attr<ContractAttr>(inner);
    auto renamed = [&](const std::vector<int>& from) {
      std::vector<int> to;
      for (int label : from) {
        auto at = std::find(labels.out.begin(), labels.out.end(), label) - labels.out.begin();
        bool summed = at == static_cast<std::ptrdiff_t>(labels.out.size());
        to.push_back(summed ? kSummed + label : outer_.a[static_cast<size_t>(at)]);
      }
      return to;
    };
    a_ = renamed(labels.a);
    b_ = renamed(labels.b);
  }

  std::optional<ClassId> turned(ClassId a, ClassId b, ClassId c) {
    if (a_.size() != 2 || b_.size() != 2 || outer_.b.size() != 2) return std::nullopt;
    std::optional<int> k = shared(a_, b_), n = shared(b_, outer_.b);
    if (!k || *k < kSummed || !n || contains(outer_.out, *n) || contains(a_, *n) ||
        contains(outer_.b, *k)) {
      return std::nullopt;
    }
    int p = outer_.b[0] == *n ? outer_.b[1] : outer_.b[0];
    int m = a_[0] == *k ? a_[1] : a_[0];
    if (m == p || !contains(outer_.out, m) || !contains(outer_.out, p) || outer_.out.size() != 2) {
      return std::nullopt;
    }
    Shape between{r_.shape(b)[b_[0] == *k ? 0 : 1], r_.shape(c)[outer_.b[0] == p ? 0 : 1]};
    ClassId product = add({relabelled(b_, {*k, p}), relabelled(outer_.b, {*k, p}), {0, 1}},
                          std::move(between), b, c);
    std::vector<int> first = outer_.out;
    return add({relabelled(a_, first), relabelled({*k, p}, first), {0, 1}}, node_.shape, a,
               product);
  }

 private:
  static constexpr int kSummed = 1000;

  static std::optional<int> shared(const std::vector<int>& x, const std::vector<int>& y) {
    for (int label : x) {
      if (contains(y, label)) return label;
    }
    return std::nullopt;
  }
  // Labels by first occurrence in `out`; the one that is not there is summed.
  static std::vector<int> relabelled(const std::vector<int>& labels, const std::vector<int>& out) {
    std::vector<int> result;
    for (int label : labels) {
      auto at = std::find(out.begin(), out.end(), label);
      result.push_back(static_cast<int>(at - out.begin()));
    }
    return result;
  }
  ClassId add(ContractAttr labels, Shape shape, ClassId x, ClassId y) {
    return r_.add({Op::kContract, node_.dtype, std::move(shape), {}, std::move(labels)}, {x, y},
                  Lowering::kAbstract);
  }

  Rewriter& r_;
  const Node& node_;
  const ContractAttr& outer_;
  std::vector<int> a_, b_;
};

}  // namespace

void add_reassociation_rules(RuleMaker& m) {
  m.rule("scale-after-sum", Equivalence::kRounding, "(reduce.sum@r (binary.mul@ ?x ?c))",
         [&m](Rewriter& r, const Match& match) {
           return scale_after_sum(r, m.node(match, "r"), match["x"], match["c"]);
         });
  m.rule("sums-in-parts", Equivalence::kRounding, "(reduce.sum@r ?x)",
         [&m](Rewriter& r, const Match& match) {
           return sum_in_parts(r, m.node(match, "r"), match["x"]);
         });
  m.rule("matrix-chain", Equivalence::kFinite, "(contract@o (contract@i ?a ?b) ?c)",
         [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
           if (!m.is_abstract(match, "o") || !m.is_abstract(match, "i")) return std::nullopt;
           const Node& inner = m.node(match, "i");
           const Node& outer = m.node(match, "o");
           if (inner.dtype != outer.dtype) return std::nullopt;
           return MatrixChain(r, inner, outer).turned(match["a"], match["b"], match["c"]);
         });
}

}  // namespace coordinator
