// Layout: what a contraction reads in an awkward order may be copied first; what depends on weights
// alone is then copied once, when weights are bound.
#include "coordinator/rules/layout.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/contains.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/rules/contraction.h"
#include "coordinator/rules/matching/factors.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::attr;
using common::contains;
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

// Summed elements that lie side by side where it is worth bringing them there. Windows with a
// border are worth a copy that has it whatever lies side by side: a product that asks for each
// element whether there is one takes several times as long.
constexpr int64_t kRunMin = 16;

// What a product reads of an input through a view, and how it would read a copy of that input that
// holds the border, too, and has the summed axis innermost that the view passes on as it is, or as
// the inner part of an axis whose outer part it also passes on (the channels of one of several
// groups): windows of images, channels last. Rows of a register tile then lie in memory as they are
// needed. Where the input has that axis innermost and no border is read, it is its own copy.
class ChannelsLast {
 public:
  ChannelsLast(Rewriter& r, ClassId input, const View& view, const std::vector<int>& labels,
               const ContractAttr& c)
      : r_(r), input_(input), view_(view), labels_(labels), c_(c), shape_(r.shape(input)) {}

  // The view of the copy and its labels: those of the output first, the innermost last.
  std::optional<Factor> make() {
    if (!measure() || !find_channels()) return std::nullopt;
    std::vector<int> axes;  // of the copy: the input's
    for (size_t d = 0; d < shape_.size(); ++d) {
      if (d != channels_) axes.push_back(static_cast<int>(d));
    }
    axes.push_back(static_cast<int>(channels_));
    std::vector<size_t> order;  // of the view's axes
    for (bool summed : {false, true}) {
      for (size_t k = 0; k < labels_.size(); ++k) {
        if (k != last_ && contains(c_.out, labels_[k]) != summed) order.push_back(k);
      }
    }
    order.push_back(last_);
    bool is_last = channels_ + 1 == shape_.size(), is_whole = sizes_ == shape_;
    if (is_last && is_whole && std::is_sorted(order.begin(), order.end())) return std::nullopt;
    ClassId copy = is_last && is_whole ? input_ : copied(axes);
    View windows;
    std::vector<Expr> moved(labels_.size(), Expr(0));
    Factor result;
    for (size_t k = 0; k < order.size(); ++k) {
      moved[order[k]] = Expr::index(static_cast<int>(k));
      windows.shape.push_back(view_.shape[order[k]]);
      result.labels.push_back(labels_[order[k]]);
    }
    for (int axis : axes) {
      auto d = static_cast<size_t>(axis);
      Expr position = view_.index[d].substitute([&](common::Var v) -> Expr {
        return v.kind == common::Var::Kind::kIndex ? moved[static_cast<size_t>(v.id)]
                                                   : Expr::var(v);
      });
      windows.index.push_back(position - Expr(low_[d]));
    }
    result.cls = r_.view(copy, windows);
    return result;
  }

 private:
  // How far each axis' positions reach; false where the view does more than look beyond the border.
  bool measure() {
    for (size_t d = 0; d < shape_.size(); ++d) {
      const Expr& e = view_.index[d];
      low_.push_back(0);
      sizes_.push_back(shape_[d]);
      auto var = e.as_var();
      bool whole = var && var->kind == common::Var::Kind::kIndex &&
                   view_.shape[static_cast<size_t>(var->id)] == shape_[d];
      if (whole || e.is_constant(0)) continue;
      auto affine = common::affine_form(e, static_cast<int>(view_.shape.size()));
      if (!affine || !affine->offset.is_constant() || !shape_[d].is_constant()) return false;
      int64_t low = affine->offset.constant(), high = low;
      for (size_t k = 0; k < affine->strides.size(); ++k) {
        const Expr& stride = affine->strides[k];
        if (stride.is_constant(0)) continue;
        if (!stride.is_constant() || !view_.shape[k].is_constant()) return false;
        int64_t reach = stride.constant() * (view_.shape[k].constant() - 1);
        (reach < 0 ? low : high) += reach;
      }
      low_[d] = std::min<int64_t>(0, low);
      sizes_[d] = Expr(std::max(high + 1, shape_[d].constant()) - low_[d]);
    }
    return std::all_of(view_.valid.begin(), view_.valid.end(), [&](const common::Validity& v) {
      for (size_t d = 0; d < shape_.size(); ++d) {
        if (v.value == view_.index[d] && v.bound == shape_[d]) return true;
      }
      return false;
    });
  }

  // How many places of the axis that comes before the channels, axis `channels` of the input, are
  // summed over one after the other.
  int64_t neighbours(size_t channels) const {
    if (shape_.size() < 2) return 1;
    size_t axis = channels + 1 == shape_.size() ? channels - 1 : shape_.size() - 1;
    auto affine = common::affine_form(view_.index[axis], static_cast<int>(view_.shape.size()));
    for (size_t k = 0; affine && k < labels_.size(); ++k) {
      if (contains(c_.out, labels_[k]) || !affine->strides[k].is_constant(1)) continue;
      if (view_.shape[k].is_constant()) return view_.shape[k].constant();
    }
    return 1;
  }

  // Of the input's axis d: the view's axis whose summed label walks it as it is, or a group of it.
  std::optional<size_t> summed_walk(size_t d) const {
    auto affine = common::affine_form(view_.index[d], static_cast<int>(view_.shape.size()));
    if (!affine || !affine->offset.is_constant(0) || !shape_[d].is_constant()) return std::nullopt;
    std::optional<size_t> inner, outer;
    for (size_t k = 0; k < affine->strides.size(); ++k) {
      if (affine->strides[k].is_constant(0)) continue;
      std::optional<size_t>& part = contains(c_.out, labels_[k]) ? outer : inner;
      if (part) return std::nullopt;
      part = k;
    }
    if (!inner || !affine->strides[*inner].is_constant(1)) return std::nullopt;
    const Expr& group = view_.shape[*inner];
    if (!outer) return group == shape_[d] ? inner : std::nullopt;
    const int batch = labels_[*outer];
    if (!contains(c_.a, batch) || !contains(c_.b, batch)) return std::nullopt;
    const bool is_whole =
        affine->strides[*outer] == group && view_.shape[*outer] * group == shape_[d];
    return is_whole ? inner : std::nullopt;
  }

  // The input's axis that a summed label walks.
  bool find_channels() {
    for (size_t d = 0; d < shape_.size(); ++d) {
      const std::optional<size_t> k = summed_walk(d);
      if (!k) continue;
      const bool is_one_group = view_.shape[*k] == shape_[d];
      const int64_t run = view_.shape[*k].constant() * (is_one_group ? neighbours(d) : 1);
      if (run < kRunMin && view_.valid.empty()) continue;
      channels_ = d;
      last_ = *k;
      return true;
    }
    return false;
  }

  // The input with its border, the axes in that order.
  ClassId copied(const std::vector<int>& axes) {
    View view;
    view.fill = view_.fill;
    view.index.resize(shape_.size());
    for (size_t k = 0; k < axes.size(); ++k) {
      auto d = static_cast<size_t>(axes[k]);
      Expr position = Expr::index(static_cast<int>(k)) + Expr(low_[d]);
      view.shape.push_back(sizes_[d]);
      view.index[d] = position;
      if (sizes_[d] != shape_[d]) view.valid.push_back({position, shape_[d]});
    }
    Node node{Op::kView, r_.dtype(input_), view.shape, {}, ViewAttr{view}};
    return r_.add(node, {input_}, Lowering::kCopy);
  }

  Rewriter& r_;
  ClassId input_;
  View view_;
  const std::vector<int>& labels_;
  const ContractAttr& c_;
  Shape shape_;
  std::vector<int64_t> low_;  // per axis of the input: the lowest position, at most 0
  Shape sizes_;               // what a copy needs
  size_t channels_ = 0;       // axis of the input
  size_t last_ = 0;           // axis of the view
};

// The product of images, channels last, and a weight: rows are places, columns the weight's.
std::optional<ClassId> with_channels_last(Rewriter& r, const Node& c, const ClassId operands[2]) {
  const auto& attribute = attr<ContractAttr>(c);
  for (size_t image : {0, 1}) {
    const std::vector<int>& labels = image == 0 ? attribute.a : attribute.b;
    const std::vector<int>& others = image == 0 ? attribute.b : attribute.a;
    if (!r.at_load(operands[1 - image]) || r.at_load(operands[image])) continue;
    for (const Rewriter::Found& found : r.find_all(operands[image], Op::kView)) {
      const View& view = attr<ViewAttr>(*found.node).view;
      auto last = ChannelsLast(r, found.operands[0], view, labels, attribute).make();
      if (!last) continue;
      std::vector<int> order = attribute.out;  // the weight's own labels behind the others
      std::stable_partition(order.begin(), order.end(), [&](int label) {
        return contains(labels, label) || !contains(others, label);
      });
      Node twin = c;
      twin.attr = image == 0 ? ContractAttr{last->labels, others, order}
                             : ContractAttr{others, last->labels, order};
      Shape shape;
      std::vector<int> back;
      for (int label : order) {
        auto at = std::find(attribute.out.begin(), attribute.out.end(), label);
        shape.push_back(c.shape[static_cast<size_t>(at - attribute.out.begin())]);
      }
      for (int label : attribute.out) {
        back.push_back(
            static_cast<int>(std::find(order.begin(), order.end(), label) - order.begin()));
      }
      twin.shape = shape;
      ClassId a = image == 0 ? last->cls : operands[0], b = image == 0 ? operands[1] : last->cls;
      return r.view(r.add(twin, {a, b}, Lowering::kTile), common::view_permute(shape, back));
    }
  }
  return std::nullopt;
}

// The view of two adjacent axes of `input` that are walked as one, and what it shows where they are
// one: what reads windows of an image finds its channels so, where a norm had split them.
//   (i3 // 4), (i3 % 4), i0 + i4 of [32, 4, 48]   is   i3, i0 + i4 of [128, 48]
std::optional<ClassId> with_joined_axes(Rewriter& r, const View& view, ClassId input) {
  const Shape& shape = r.shape(input);
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    const Expr& outer = view.index[d];
    const bool is_split = outer.kind() == common::ExprKind::kFloorDiv &&
                          outer.right() == shape[d + 1] &&
                          view.index[d + 1] == common::mod(outer.left(), outer.right());
    if (!is_split) continue;
    const auto axis = static_cast<std::ptrdiff_t>(d);
    Shape joined = shape;
    joined[d] = shape[d] * shape[d + 1];
    joined.erase(joined.begin() + axis + 1);
    View seen = view;
    seen.index[d] = outer.left();
    seen.index.erase(seen.index.begin() + axis + 1);
    // Nothing but a reshape.
    if (common::view_is_identity(seen, joined)) return std::nullopt;
    const common::Bounds bounds(r.symbols(), {});
    return r.view(r.view(input, common::view_reshape(shape, joined, bounds)), seen);
  }
  return std::nullopt;
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
  m.rule("joined-axes", Equivalence::kBits, "(view@v ?x)", [&m](Rewriter& r, const Match& match) {
    return with_joined_axes(r, attr<ViewAttr>(m.node(match, "v")).view, match["x"]);
  });
  m.rule(
      "copied-operand", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        if (!reuses_operands(attr<ContractAttr>(m.node(match, "c")))) return std::nullopt;
        copy_views(r, match["a"]);
        copy_views(r, match["b"]);
        return std::nullopt;
      },
      RuleMaker::Reach::kDeep);
  m.rule(
      "channels-last", Equivalence::kBits, "(contract@c ?a ?b)",
      [&m](Rewriter& r, const Match& match) -> std::optional<ClassId> {
        const Node& c = m.node(match, "c");
        if (!m.is_abstract(match, "c") || !reuses_operands(attr<ContractAttr>(c))) {
          return std::nullopt;
        }
        const ClassId operands[] = {match["a"], match["b"]};
        return with_channels_last(r, c, operands);
      },
      RuleMaker::Reach::kDeep);
}

}  // namespace coordinator
