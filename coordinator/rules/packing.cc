// Packing: contractions of one operand with several weights are one contraction with the weights
// side by side, which is put together once when weights are bound. Query, key and value; gate and
// up. Each is a slice of the result, and so are their sums with biases of the result's sum with all
// biases side by side.
#include <algorithm>
#include <map>

#include "common/base/contains.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
using common::contains;
using common::ContractAttr;
using common::DType;
using common::Expr;
using common::Node;
using common::Op;
using common::Shape;
using common::View;
using common::ViewAttr;

constexpr size_t kSiblingsMax = 16;
constexpr int kDepthMax = 4;

struct Sibling {
  ClassId result = kNone;
  ClassId weight = kNone;
  Expr size;  // along the label by which siblings differ
};

struct Part {
  ClassId tensor = kNone;
  Expr size;
};

// A sum of a sibling, seen like that, and a bias of its size.
struct Biased {
  ClassId sum = kNone;
  View seen;
  ClassId bias = kNone;
};

// Weights that lie side by side already, scaled or not: what packing made is not packed again.
bool is_packed(const Rewriter& r, ClassId weight, int depth = 0) {
  if (r.find(weight, Op::kSelect)) return true;
  if (depth == kDepthMax) return false;
  for (const Rewriter::Found& view : r.find_all(weight, Op::kView)) {
    if (is_packed(r, view.operands[0], depth + 1)) return true;
  }
  auto product = r.find_binary(weight, BinaryOp::kMul);
  return product && (is_packed(r, product->operands[0], depth + 1) ||
                     is_packed(r, product->operands[1], depth + 1));
}

class Packing {
 public:
  // `side`: the operand that siblings share.
  Packing(Rewriter& r, const Node& first, ClassId shared, size_t side)
      : r_(r),
        first_(first),
        labels_(attr<ContractAttr>(first)),
        shared_(r.graph().find(shared)),
        side_(side) {}

  // Makes every sibling a slice of one contraction, if `root` is the first of two or more.
  void apply(ClassId root) {
    const std::vector<int>& shared_labels = side_ == 0 ? labels_.a : labels_.b;
    auto free = std::find_if(labels_.out.begin(), labels_.out.end(),
                             [&](int label) { return !contains(shared_labels, label); });
    if (free == labels_.out.end()) return;
    label_ = *free;
    out_axis_ = static_cast<size_t>(free - labels_.out.begin());
    const std::vector<int>& own = weight_labels();
    weight_axis_ = static_cast<size_t>(std::find(own.begin(), own.end(), label_) - own.begin());
    std::vector<Sibling> siblings = find();
    if (siblings.size() < 2 || siblings[0].result != r_.graph().find(root)) return;
    if (siblings.size() > kSiblingsMax) siblings.resize(kSiblingsMax);
    pack(siblings);
  }

 private:
  const std::vector<int>& weight_labels() const { return side_ == 0 ? labels_.b : labels_.a; }

  // By result class; of several weights that give one result the first.
  std::vector<Sibling> find() {
    std::map<ClassId, Sibling> siblings;
    r_.graph().for_each_parent(shared_, [&](NodeId n) {
      const Node& node = r_.node(n);
      if (node.op != Op::kContract || r_.lowering(n) != Lowering::kAbstract) return;
      auto children = r_.graph().children(n);
      ClassId weight = r_.graph().find(children[1 - side_]);
      if (r_.graph().find(children[side_]) != shared_ || !r_.at_load(weight)) return;
      if (node.dtype != first_.dtype || attr<ContractAttr>(node) != labels_) return;
      if (!fits(weight) || is_packed(r_, weight)) return;
      ClassId result = r_.graph().class_of(n);
      siblings.emplace(result, Sibling{result, weight, r_.shape(weight)[weight_axis_]});
    });
    std::vector<Sibling> found;
    for (const auto& [result, sibling] : siblings) found.push_back(sibling);
    return found;
  }

  // Like the first sibling's weight but for the size along the label.
  bool fits(ClassId weight) const {
    const std::vector<int>& own = weight_labels();
    const Shape& shape = r_.shape(weight);
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (!shape[axis].is_constant()) return false;
      auto in_out = std::find(labels_.out.begin(), labels_.out.end(), own[axis]);
      if (axis == weight_axis_ || in_out == labels_.out.end()) continue;
      if (shape[axis] != first_.shape[static_cast<size_t>(in_out - labels_.out.begin())]) {
        return false;
      }
    }
    return true;
  }

  // Tensors that differ in size along `axis` only.
  ClassId side_by_side(const std::vector<Part>& parts, size_t axis, const Expr& total) {
    Shape shape = r_.shape(parts[0].tensor);
    shape[axis] = total;
    auto position = Expr::index(static_cast<int>(axis));
    ClassId counted = r_.add({Op::kIota, DType::kInt64, {total}, {}, {}}, {});
    ClassId place = r_.view(counted, View{shape, {position}, {}, 0});
    Expr begin = total;
    ClassId packed = kNone;
    for (size_t k = parts.size(); k-- > 0;) {
      Expr end = begin;
      begin = begin - parts[k].size;
      View padded = common::view_identity(shape);
      padded.index[axis] = position - begin;
      padded.valid.push_back({position - begin, parts[k].size});
      ClassId part = r_.view(parts[k].tensor, padded);
      if (packed == kNone) {
        packed = part;
        continue;
      }
      ClassId limit = r_.scalar(DType::kInt64, static_cast<double>(end.constant()), shape);
      packed = r_.select(r_.binary(BinaryOp::kLess, place, limit), part, packed);
    }
    return packed;
  }

  void pack(const std::vector<Sibling>& siblings) {
    if (!std::all_of(siblings.begin(), siblings.end(), [&](const Sibling& sibling) {
          return r_.dtype(sibling.weight) == r_.dtype(siblings[0].weight);
        })) {
      return;
    }
    Expr total = 0;
    std::vector<Part> weights;
    for (const Sibling& sibling : siblings) {
      total += sibling.size;
      weights.push_back({sibling.weight, sibling.size});
    }
    std::vector<Biased> biased = biased_siblings(siblings);
    Node node = first_;
    node.shape[out_axis_] = total;
    std::vector<ClassId> operands{shared_, shared_};
    operands[1 - side_] = side_by_side(weights, weight_axis_, total);
    ClassId packed = r_.add(node, operands, Lowering::kAbstract);
    for_each_slice(siblings, node.shape, [&](size_t k, const View& slice) {
      r_.graph().merge(siblings[k].result, r_.view(packed, slice));
    });
    if (biased.empty()) return;
    std::vector<Part> biases;
    for (size_t k = 0; k < siblings.size(); ++k) {
      biases.push_back({biased[k].bias, siblings[k].size});
    }
    View spread{node.shape, {Expr::index(static_cast<int>(out_axis_))}, {}, 0};
    ClassId sums =
        r_.binary(BinaryOp::kAdd, packed, r_.view(side_by_side(biases, 0, total), spread));
    for_each_slice(siblings, node.shape, [&](size_t k, const View& slice) {
      r_.graph().merge(biased[k].sum, r_.view(r_.view(sums, slice), biased[k].seen));
    });
  }

  template <class F>
  void for_each_slice(const std::vector<Sibling>& siblings, const Shape& shape, F&& visit) {
    Expr begin = 0;
    for (size_t k = 0; k < siblings.size(); ++k) {
      visit(k, common::view_slice(shape, static_cast<int>(out_axis_), begin, siblings[k].size, 1));
      begin += siblings[k].size;
    }
  }

  // Every sibling with its bias; empty unless each has one.
  std::vector<Biased> biased_siblings(const std::vector<Sibling>& siblings) {
    std::vector<Biased> biased;
    for (const Sibling& sibling : siblings) {
      auto found = with_bias(sibling);
      if (!found || r_.dtype(found->bias) != first_.dtype) return {};
      biased.push_back(*std::move(found));
    }
    return biased;
  }

  // The first sum of the sibling, or of a view of it, with a vector along the label.
  std::optional<Biased> with_bias(const Sibling& sibling) {
    std::vector<Biased> ways{{sibling.result, common::view_identity(r_.shape(sibling.result))}};
    r_.graph().for_each_parent(sibling.result, [&](NodeId n) {
      if (r_.node(n).op != Op::kView) return;
      const View& view = attr<ViewAttr>(r_.node(n)).view;
      if (view.valid.empty()) ways.push_back({r_.graph().class_of(n), view});
    });
    for (const Biased& way : ways) {
      std::optional<Biased> found;
      r_.graph().for_each_parent(way.sum, [&](NodeId n) {
        const Node& node = r_.node(n);
        bool is_sum = node.op == Op::kBinary && attr<common::BinaryAttr>(node).op == BinaryOp::kAdd;
        if (!is_sum || found) return;
        auto children = r_.graph().children(n);
        bool is_left = r_.graph().find(children[0]) == r_.graph().find(way.sum);
        auto bias = vector_along(children[is_left ? 1 : 0], way.seen.index[out_axis_], sibling);
        if (bias) found = Biased{r_.graph().class_of(n), way.seen, *bias};
      });
      if (found) return found;
    }
    return std::nullopt;
  }

  // The vector that the class reads at that index and nothing else.
  std::optional<ClassId> vector_along(ClassId cls, const Expr& index, const Sibling& sibling) {
    if (!r_.at_load(cls)) return std::nullopt;
    for (const Rewriter::Found& found : r_.find_all(cls, Op::kView)) {
      const View& view = attr<ViewAttr>(*found.node).view;
      const Shape& shape = r_.shape(found.operands[0]);
      bool is_vector = shape.size() == 1 && shape[0] == sibling.size && view.valid.empty();
      if (is_vector && view.index[0] == index) return r_.graph().find(found.operands[0]);
    }
    return std::nullopt;
  }

  Rewriter& r_;
  const Node& first_;
  const ContractAttr labels_;
  ClassId shared_;
  size_t side_;
  int label_ = 0;
  size_t out_axis_ = 0;
  size_t weight_axis_ = 0;
};

}  // namespace

void add_packing_rules(RuleMaker& m) {
  // All siblings become slices at once: these merges are the rule's.
  m.rule(
      "pack-siblings", Equivalence::kRounding, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!m.is_abstract(match, "c")) return std::nullopt;
        ClassId operands[2] = {match["a"], match["b"]};
        for (size_t side : {size_t{0}, size_t{1}}) {
          if (r.at_load(operands[side]) || !r.at_load(operands[1 - side])) continue;
          Packing(r, m.node(match, "c"), operands[side], side).apply(match.root);
        }
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
