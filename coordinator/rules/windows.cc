// Windows: what is reduced over windows along several axes of an image is reduced along one axis
// after the other. Maxima of 5 x 5 places take 5 + 5 steps each, where neighbours share the first.
#include <algorithm>

#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/sizes.h"
#include "coordinator/rules/rule_set.h"

namespace coordinator {
namespace {

using common::at;
using common::attr;
using common::Expr;
using common::Node;
using common::Op;
using common::ReduceAttr;
using common::ReduceOp;
using common::Shape;
using common::View;
using common::ViewAttr;
using common::WindowAxis;

bool uses(const Expr& e, int axis) { return e.uses(common::Var{common::Var::Kind::kIndex, axis}); }
bool uses_either(const common::Validity& v, const WindowAxis& axis) {
  return uses(v.value, axis.place) || uses(v.value, axis.tap);
}

// Whether a sum or the like may be taken apart without rounding more than once to a short type.
bool is_divisible(ReduceOp op, common::DType dtype, const View& view) {
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) return true;
  return op == ReduceOp::kSum && !common::is_half(dtype) && (view.valid.empty() || view.fill == 0);
}

// The windows of one reduction, of which those along axis `d` of the image are reduced last.
class SplitWindows {
 public:
  SplitWindows(Rewriter& r, const Node& reduce, const View& view, ClassId image)
      : r_(r), reduce_(reduce), view_(view), image_(image) {
    for (size_t k = 0; k < view.shape.size(); ++k) {
      is_place_.push_back(!common::contains(attr<ReduceAttr>(reduce).axes, static_cast<int>(k)));
    }
  }

  std::optional<ClassId> reduced_last(size_t d) const {
    auto axis = common::window_axis(view_.index[d], is_place_);
    if (!axis || axis->place < 0 || axis->tap < 0 || !is_apart(d, *axis)) return std::nullopt;
    if (!saves_steps(d, *axis)) return std::nullopt;
    return outer(d, *axis, inner(d, *axis));
  }

 private:
  // Whether nothing but the position along `d` depends on the axis' indices, nor it on others.
  bool is_apart(size_t d, const WindowAxis& axis) const {
    for (size_t k = 0; k < view_.index.size(); ++k) {
      const Expr& e = view_.index[k];
      if (k != d && (uses(e, axis.place) || uses(e, axis.tap))) return false;
    }
    return std::ranges::all_of(view_.valid, [&](const common::Validity& v) {
      if (!uses_either(v, axis)) return true;
      for (size_t k = 0; k < view_.shape.size(); ++k) {
        const auto other = static_cast<int>(k);
        if (other != axis.place && other != axis.tap && uses(v.value, other)) return false;
      }
      return true;
    });
  }

  bool saves_steps(size_t d, const WindowAxis& axis) const {
    const std::vector<int64_t> sizes = common::representative_sizes(r_.symbols());
    const double together = common::count_elements(view_.shape, sizes);
    const double taps = common::count_elements({view_.shape[at(axis.tap)]}, sizes);
    const double places = common::count_elements({view_.shape[at(axis.place)]}, sizes);
    const double rows = common::count_elements({r_.shape(image_)[d]}, sizes);
    const double first = together / (taps * places) * rows;
    return first + common::count_elements(reduce_.shape, sizes) * taps < together;
  }

  // The image reduced along all axes but `d`, whose every place is there.
  ClassId inner(size_t d, const WindowAxis& axis) const {
    std::vector<Expr> renamed;
    for (size_t k = 0; k < view_.shape.size(); ++k) {
      const auto id = static_cast<int>(k);
      renamed.push_back(id == axis.tap ? Expr(0) : Expr::index(id > axis.tap ? id - 1 : id));
    }
    View windows;
    windows.fill = view_.fill;
    for (size_t k = 0; k < view_.shape.size(); ++k) {
      if (static_cast<int>(k) == axis.tap) continue;
      const bool is_axis = static_cast<int>(k) == axis.place;
      windows.shape.push_back(is_axis ? r_.shape(image_)[d] : view_.shape[k]);
    }
    for (size_t k = 0; k < view_.index.size(); ++k) {
      windows.index.push_back(k == d ? renamed[at(axis.place)]
                                     : common::with_indices(view_.index[k], renamed));
    }
    for (const common::Validity& v : view_.valid) {
      if (uses_either(v, axis)) continue;
      windows.valid.push_back({common::with_indices(v.value, renamed), v.bound});
    }
    std::vector<int> axes;
    for (int k : attr<ReduceAttr>(reduce_).axes) {
      if (k != axis.tap) axes.push_back(k > axis.tap ? k - 1 : k);
    }
    Shape shape = reduce_.shape;
    shape[at(kept_before(axis.place))] = r_.shape(image_)[d];
    return reduction(shape, axes, r_.view(image_, windows));
  }

  ClassId outer(size_t d, const WindowAxis& axis, ClassId rows) const {
    const auto rank = static_cast<int>(reduce_.shape.size());
    const int place = kept_before(axis.place);
    std::vector<Expr> renamed(view_.shape.size(), Expr(0));
    renamed[at(axis.place)] = Expr::index(place);
    renamed[at(axis.tap)] = Expr::index(rank);
    View windows;
    windows.fill = view_.fill;
    windows.shape = reduce_.shape;
    windows.shape.push_back(view_.shape[at(axis.tap)]);
    for (int k = 0; k < rank; ++k) windows.index.push_back(Expr::index(k));
    windows.index[at(place)] = common::with_indices(view_.index[d], renamed);
    for (const common::Validity& v : view_.valid) {
      if (!uses_either(v, axis)) continue;
      windows.valid.push_back({common::with_indices(v.value, renamed), v.bound});
    }
    return reduction(reduce_.shape, {rank}, r_.view(rows, windows));
  }

  ClassId reduction(const Shape& shape, std::vector<int> axes, ClassId of) const {
    ReduceAttr how{attr<ReduceAttr>(reduce_).op, std::move(axes)};
    return r_.add(Node{Op::kReduce, reduce_.dtype, shape, {}, std::move(how)}, {of});
  }

  // The axis of the result that an axis of the windows becomes.
  int kept_before(int axis) const {
    return static_cast<int>(std::count(is_place_.begin(), is_place_.begin() + axis, true));
  }

  Rewriter& r_;
  const Node& reduce_;
  const View& view_;
  const ClassId image_;
  std::vector<bool> is_place_;
};

}  // namespace

void add_windows_rules(RuleMaker& m) {
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum}) {
    const std::string name(common::reduce_name(op));
    const auto equivalence = op == ReduceOp::kSum ? Equivalence::kRounding : Equivalence::kBits;
    m.rule("windows-by-axis-" + name, equivalence, "(reduce." + name + "@r (view@v ?x))",
           [&m, op](Rewriter& r, const Match& match) -> std::optional<ClassId> {
             const Node& reduce = m.node(match, "r");
             const View& view = attr<ViewAttr>(m.node(match, "v")).view;
             if (attr<ReduceAttr>(reduce).axes.size() < 2) return std::nullopt;
             if (!is_divisible(op, reduce.dtype, view)) return std::nullopt;
             const SplitWindows windows(r, reduce, view, match["x"]);
             for (size_t d = 0; d < view.index.size(); ++d) {
               if (auto last = windows.reduced_last(d)) return last;
             }
             return std::nullopt;
           });
  }
}

}  // namespace coordinator
