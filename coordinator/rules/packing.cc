// Packing: contractions of one operand with several weights are one contraction with the weights
// side by side, which is put together once when weights are bound. Query, key and value; gate and
// up. Each is a slice of the result.
#include <algorithm>
#include <map>

#include "coordinator/rules/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::BinaryOp;
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
                             [&](int label) { return !has(shared_labels, label); });
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

  ClassId side_by_side(const std::vector<Sibling>& siblings, const Expr& total) {
    Shape shape = r_.shape(siblings[0].weight);
    shape[weight_axis_] = total;
    auto position = Expr::index(static_cast<int>(weight_axis_));
    ClassId counted = r_.add({Op::kIota, DType::kInt64, {total}, {}, {}}, {});
    ClassId place = r_.view(counted, View{shape, {position}, {}, 0});
    Expr begin = total;
    ClassId packed = kNone;
    for (size_t k = siblings.size(); k-- > 0;) {
      const Sibling& sibling = siblings[k];
      Expr end = begin;
      begin = begin - sibling.size;
      View padded = common::view_identity(shape);
      padded.index[weight_axis_] = position - begin;
      padded.valid.push_back({position - begin, sibling.size});
      ClassId part = r_.view(sibling.weight, padded);
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
    for (const Sibling& sibling : siblings) total += sibling.size;
    Node node = first_;
    node.shape[out_axis_] = total;
    std::vector<ClassId> operands{shared_, shared_};
    operands[1 - side_] = side_by_side(siblings, total);
    ClassId packed = r_.add(node, operands, Lowering::kAbstract);
    Expr begin = 0;
    for (const Sibling& sibling : siblings) {
      View slice =
          common::view_slice(node.shape, static_cast<int>(out_axis_), begin, sibling.size, 1);
      r_.graph().merge(sibling.result, r_.view(packed, slice));
      begin += sibling.size;
    }
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
      "pack-siblings", Claim::kRounding, "(contract@c ?a ?b)",
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
