// Stores what the templates of kernels cannot compute in place.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/ir/expr/with_indices.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/fallback_form.h"
#include "common/ir/llir/grouped_form.h"
#include "common/ir/llir/view_inverse.h"
#include "coordinator/search/partition/materialisation.h"
#include "coordinator/search/partition/node_kinds.h"

namespace coordinator {

using common::Expr;
using common::Graph;
using common::Node;
using common::Op;
using common::Template;

namespace {

// Finds what a kernel rooted at `root` holds that its template cannot: the node to store, if any.
class TileCheck {
 public:
  TileCheck(const Selected& selected, const Materialised& materialised, common::NodeId root,
            AttentionMemo& memo)
      : selected_(selected), materialised_(materialised), root_(root), memo_(memo) {}

  std::optional<common::NodeId> offender() {
    inner_ = common::view_identity(selected_.graph.node(root_).shape);
    visit(root_, inner_.index);
    if (contraction_ < 0 && transform_ < 0) return std::nullopt;
    return offender_ ? offender_ : reductive_;
  }
  bool is_transform() const { return transform_ >= 0; }
  // The contraction that the kernel is built around; -1 when there is none.
  common::NodeId contraction() const { return contraction_; }
  bool is_attention() const { return is_attention_; }

 private:
  // For each of a value's axes its index in terms of the root's indices, 0 for an axis of size 1
  // that the root does not have.
  using Spine = std::vector<Expr>;

  // spine: the value is needed at exactly the root's indices, one element for each.
  void visit(common::NodeId id, const std::optional<Spine>& spine) {
    const Node& node = selected_.graph.node(id);
    if (id != root_ && is_materialised(selected_, materialised_, id)) return;
    if (!seen_.insert({id, spine}).second) return;
    if (node.op == Op::kContract) {
      bool second = contraction_ >= 0 || transform_ >= 0;
      const bool is_known = id == contraction_ || id == paired_;
      if (!is_whole(node, spine) || (second && !is_known && !is_pair(id))) {
        offender_ = id;
        if (!second) contraction_ = id;
        return;
      }
      (second && id != contraction_ ? paired_ : contraction_) = id;
      if (id == contraction_) placed_ = spine;
      if (auto form = attention_at(selected_, materialised_, id, memo_)) {
        is_attention_ = true;
        if (form->obstacle) offender_ = form->obstacle;
        return;
      }
    } else if (node.op == Op::kFourier) {
      note_transform(id, spine ? root_axes(node, *spine) : std::nullopt);
    } else if (is_reductive(node) && !reductive_ && id != root_) {
      reductive_ = id;
    }
    for (common::NodeId operand : node.operands) visit(operand, continued(id, operand, spine));
  }

  // The root's axis of that size whose index this is.
  std::optional<int> axis_of(const Expr& index, const Expr& size) const {
    auto var = index.as_var();
    if (!var || var->kind != common::Var::Kind::kIndex || inner_.shape[at(var->id)] != size) {
      return std::nullopt;
    }
    return var->id;
  }

  // Where every axis of the node is one of the root's.
  std::optional<Axes> root_axes(const Node& node, const Spine& spine) const {
    Axes axes;
    for (size_t k = 0; k < spine.size(); ++k) {
      auto axis = axis_of(spine[k], node.shape[k]);
      if (!axis) return std::nullopt;
      axes.push_back(*axis);
    }
    return axes;
  }

  // Whether one kernel may compute the contraction after the one that it has: both are tiles of
  // operands of 16 bits, read as they lie in memory, with results of one shape. Whether blocks can
  // do it is decided by the kernel's body; what they cannot is priced as slow.
  bool is_pair(common::NodeId id) const {
    return selected_.may_pair && transform_ < 0 && paired_ < 0 && is_tile_of_halves(contraction_) &&
           is_tile_of_halves(id) &&
           selected_.graph.node(id).shape == selected_.graph.node(contraction_).shape;
  }

  bool is_tile_of_halves(common::NodeId id) const {
    const Node& node = selected_.graph.node(id);
    constexpr int64_t kFew = 16, kStep = 64;
    const common::TileProblem p = common::tile_problem(selected_.graph, node);
    const bool has_few = (p.m_size.is_constant() && p.m_size.constant() <= kFew) ||
                         !p.n_size.is_constant() || p.n_size.constant() <= kFew;
    const bool is_stepped = p.k_size.is_constant() && p.k_size.constant() % kStep == 0;
    return selected_.lowering[at(id)] == Lowering::kTile && node.operands.size() == 2 &&
           p.batch.empty() && !has_few && is_stepped &&
           std::all_of(node.operands.begin(), node.operands.end(),
                       [&](common::NodeId operand) { return is_stored_half(operand); });
  }

  // Seen through casts and views.
  bool is_stored_half(common::NodeId id) const {
    const Node& node = selected_.graph.node(id);
    bool is_stored = node.op == Op::kInput || is_materialised(selected_, materialised_, id);
    if (is_stored) return common::is_half(node.dtype);
    bool is_seen_through = node.op == Op::kView || node.op == Op::kCast;
    return is_seen_through && is_stored_half(node.operands[0]);
  }

  // Whether the root's elements are the value's, one for each, beside a border: in the value's
  // order, but for a tile that may place its rows.
  bool is_whole(const Node& node, const std::optional<Spine>& spine) const {
    if (!spine) return false;
    const bool is_ordered = is_in_order(node, *spine);
    // Of one element alone, wherever it is needed.
    const bool is_other =
        placed_ && placed_ != spine && !(is_ordered && is_in_order(node, *placed_));
    if (is_other || is_ordered) return !is_other;
    return selected_.may_place_rows && has_known_sizes(inner_.shape) && is_placed(node, *spine);
  }

  bool is_in_order(const Node& node, const Spine& spine) const {
    const common::Shape& shape = inner_.shape;
    size_t next = 0;
    for (size_t k = 0; k < spine.size(); ++k) {
      if (spine[k].is_constant(0) && node.shape[k].is_constant(1)) continue;
      const auto axis = axis_of(spine[k], node.shape[k]);
      while (axis && next < shape.size() && static_cast<int>(next) != *axis &&
             shape[next].is_constant(1)) {
        ++next;
      }
      if (!axis || next >= shape.size() || static_cast<int>(next) != *axis) return false;
      ++next;
    }
    return std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(next), shape.end(),
                       [](const Expr& size) { return size.is_constant(1); });
  }

  static bool has_known_sizes(const common::Shape& shape) {
    return std::all_of(shape.begin(), shape.end(),
                       [](const Expr& size) { return size.is_constant(); });
  }

  // A row's elements must lie side by side.
  bool is_placed(const Node& node, const Spine& spine) const {
    size_t last = inner_.shape.size(), own = node.shape.size();
    while (last > 0 && inner_.shape[last - 1].is_constant(1)) --last;
    while (own > 0 && node.shape[own - 1].is_constant(1)) --own;
    if (last == 0 || own == 0) return last == own;
    const Expr innermost = Expr::index(static_cast<int>(last) - 1);
    const Expr& index = spine[own - 1];
    if (index != innermost && index != common::mod(innermost, node.shape[own - 1])) return false;
    common::View view = inner_;
    view.index = spine;
    const Spine places = common::view_identity(node.shape).index;
    return common::invert_view(view, node.shape, places).has_value();
  }

  // The spine at an operand of a node.
  std::optional<Spine> continued(common::NodeId id, common::NodeId operand,
                                 const std::optional<Spine>& spine) {
    const Node& node = selected_.graph.node(id);
    if (!spine || is_elementwise(node)) return spine;
    if (node.op != Op::kView) return std::nullopt;
    const common::View* view = &common::attr<common::ViewAttr>(node).view;
    std::optional<common::BorderedView> bordered;
    if (!view->valid.empty()) {
      const common::Shape& shape = selected_.graph.node(operand).shape;
      if (selected_.may_place_rows && id == root_) bordered = common::bordered_view(*view, shape);
      // Rows are stored within a border, and have none themselves.
      if (!bordered || bordered->axes == view->shape.size()) return std::nullopt;
      inner_.shape = bordered->inner.shape;
      view = &bordered->inner;
    }
    return common::with_indices(view->index, *spine);
  }

  // A kernel holds the parts of one transform and no contraction.
  void note_transform(common::NodeId id, const std::optional<Axes>& spine) {
    const Graph& graph = selected_.graph;
    bool fits = spine && contraction_ < 0;
    if (transform_ >= 0) {
      fits = fits && spine == transform_axes_ &&
             common::is_same_transform(graph.node(transform_), graph.node(id));
    }
    if (!fits) offender_ = id;
    if (transform_ >= 0) return;
    transform_ = id;
    transform_axes_ = spine;
  }

  const Selected& selected_;
  const Materialised& materialised_;
  common::NodeId root_;
  common::View inner_;  // of the root's shape without its border
  AttentionMemo& memo_;
  common::NodeId contraction_ = -1;
  common::NodeId paired_ = -1;  // that is computed with it
  common::NodeId transform_ = -1;
  std::optional<Spine> placed_;  // where the contraction's elements are needed
  std::optional<Axes> transform_axes_;
  bool is_attention_ = false;
  std::optional<common::NodeId> offender_;
  std::optional<common::NodeId> reductive_;
  std::set<std::pair<common::NodeId, std::optional<Spine>>> seen_;
};

void require_stored_operands(const Selected& selected, const Node& node,
                             Materialised& materialised) {
  for (common::NodeId operand : node.operands) {
    common::NodeId base = base_of(selected, operand);
    if (is_computed(selected.graph.node(base))) materialised[at(base)] = 1;
  }
}

// Rows that are computed for a product by groups: its blocks of columns would compute each anew.
void require_stored_rows(const Selected& selected, const Node& product,
                         const common::GroupedForm& form, Materialised& materialised) {
  const Graph& graph = selected.graph;
  common::NodeId rows = base_of(selected, product.operands[at(1 - form.matrices)]);
  while (only_moves(graph, graph.node(rows)) && !is_materialised(selected, materialised, rows)) {
    rows = base_of(selected, graph.node(rows).operands[0]);
  }
  if (is_computed(graph.node(rows))) materialised[at(rows)] = 1;
}

// Scores that an attention takes into its kernel, whatever their own lowering.
std::vector<char> scores_in_attention(const Selected& selected, const Materialised& materialised,
                                      AttentionMemo& memo) {
  std::vector<char> taken(selected.graph.nodes.size(), 0);
  for (size_t i = 0; i < taken.size(); ++i) {
    auto form = attention_at(selected, materialised, static_cast<common::NodeId>(i), memo);
    if (form && form->scores != static_cast<common::NodeId>(i)) taken[at(form->scores)] = 1;
  }
  return taken;
}

// The node to store so that a kernel need not hold `offender`. A contraction that is computed only
// where another way has overflowed stays in the kernel of the choice between both: alone it would
// be computed in every run.
common::NodeId stored_for(const Selected& selected, common::NodeId offender,
                          const Materialised& materialised) {
  const Graph& graph = selected.graph;
  if (graph.node(offender).op != Op::kContract) return offender;
  const auto form = common::fallback_form(graph, offender);
  if (!form) return offender;
  if (!is_materialised(selected, materialised, form->choice)) return form->choice;
  const common::NodeId usual = base_of(selected, graph.node(form->choice).operands[2]);
  bool is_free = is_computed(graph.node(usual)) && !is_materialised(selected, materialised, usual);
  return is_free ? usual : offender;
}

// Stores what a kernel rooted at `root`, and at what is stored on the way, cannot hold.
void repair_kernel(const Selected& selected, common::NodeId root, Materialised& materialised,
                   AttentionMemo& memo) {
  std::vector<common::NodeId> troubled{root};
  while (!troubled.empty()) {
    auto offender = TileCheck(selected, materialised, troubled.back(), memo).offender();
    if (offender) {
      const common::NodeId stored = stored_for(selected, *offender, materialised);
      materialised[at(stored)] = 1;
      // A stored node is an earlier root that may have troubles of its own.
      troubled.push_back(stored);
    } else {
      troubled.pop_back();
    }
  }
}

}  // namespace

void repair_materialisation(const Selected& selected, Materialised& materialised,
                            AttentionMemo& memo) {
  const Graph& graph = selected.graph;
  std::vector<char> is_output(graph.nodes.size(), 0);
  for (const auto& output : graph.outputs) {
    is_output[at(output.node)] = 1;
    if (is_computed(graph.node(output.node))) materialised[at(output.node)] = 1;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (has_own_template(node)) materialised[i] = 1;
    if (node.op != Op::kSelect || graph.node(node.operands[1]).op != Op::kContract) continue;
    if (common::fallback_form(graph, node.operands[1])) materialised[at(node.operands[1])] = 0;
  }
  // Storing one node only shrinks other kernels, but it may end an attention, whose parts then need
  // what others need. What is materialised only grows, so this ends.
  for (Materialised before; before != materialised;) {
    std::vector<char> taken = scores_in_attention(selected, materialised, memo);
    before = materialised;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      auto form = selected.lowering[i] == Lowering::kGrouped
                      ? common::grouped_form(graph, static_cast<common::NodeId>(i))
                      : std::nullopt;
      if (form) require_stored_rows(selected, node, *form, materialised);
      if (node.op == Op::kContract && selected.lowering[i] == Lowering::kGemm && !taken[i]) {
        materialised[i] = 1;
        require_stored_operands(selected, node, materialised);
      }
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      auto id = static_cast<common::NodeId>(i);
      if (is_materialised(selected, materialised, id) || is_output[i])
        repair_kernel(selected, id, materialised, memo);
    }
    if (std::count(taken.begin(), taken.end(), 1) == 0) break;
  }
}

Template template_of(const Selected& selected, const Materialised& materialised,
                     common::NodeId root) {
  AttentionMemo memo;
  TileCheck check(selected, materialised, root, memo);
  LFARM_CHECK(!check.offender(), "the stores were not repaired");
  if (check.is_attention()) return Template::kAttention;
  if (check.is_transform()) return Template::kFourier;
  return check.contraction() >= 0 ? Template::kTile : Template::kLoops;
}

}  // namespace coordinator
