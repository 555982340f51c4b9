#include "coordinator/search/partition/materialisation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/contains.h"
#include "common/ir/hlir/fourier_form.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/hlir/tile_form.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/partition/node_kinds.h"
#include "coordinator/search/partition/rewrites/product_sum.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::Graph;
using common::Node;
using common::Op;
using common::UnaryOp;

// So often windows read an element where it is better computed before.
constexpr double kWindowsOverlap = 2;
// Operands of up to this many times a value's bytes are about as much to read as the value.
constexpr double kReadsAsLittle = 1.25;
// Nodes of a kernel that are looked at.
constexpr size_t kChainMax = 32;
// Steps that a product's operand takes in place: two values side by side are three.
constexpr size_t kOperandStepsMax = 8;

bool is_copy(const Selected& selected, common::NodeId id) {
  return selected.lowering[at(id)] == Lowering::kCopy;
}

// A use of a node by a kernel's node, seen through views.
struct Use {
  common::NodeId user;
  bool direct;  // without a view between
};

std::vector<std::vector<Use>> uses_of(const Selected& selected) {
  const Graph& graph = selected.graph;
  std::vector<std::vector<Use>> uses(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_computed(graph.nodes[i]) && !is_copy(selected, static_cast<common::NodeId>(i)))
      continue;
    for (common::NodeId operand : graph.nodes[i].operands) {
      common::NodeId base = base_of(selected, operand);
      uses[at(base)].push_back({static_cast<common::NodeId>(i), base == operand});
    }
  }
  for (const auto& output : graph.outputs) {
    common::NodeId base = base_of(selected, output.node);
    if (base != output.node) uses[at(base)].push_back({output.node, false});
  }
  return uses;
}

// The leading axes of `inner` walk along with those of `outer`, so that a value per row of `inner`
// is computed once per row of `outer`.
bool rows_align(const common::Shape& reduced, const common::Shape& outer) {
  if (reduced.size() > outer.size()) return false;
  for (size_t k = 0; k < reduced.size(); ++k) {
    if (reduced[k] != outer[k]) return false;
  }
  return true;
}

// The axes of the view's operand as axes of the view; empty unless it only changes their order.
std::optional<Axes> permuted_axes(const Node& node, const Node& operand) {
  const common::View& view = common::attr<common::ViewAttr>(node).view;
  if (!view.valid.empty() || view.shape.size() != operand.shape.size()) return std::nullopt;
  Axes axes;
  std::vector<char> taken(view.shape.size(), 0);
  for (size_t k = 0; k < view.index.size(); ++k) {
    size_t axis = 0;
    while (axis < taken.size() && view.index[k] != common::Expr::index(static_cast<int>(axis))) {
      ++axis;
    }
    if (axis == taken.size() || taken[axis] != 0 || view.shape[axis] != operand.shape[k]) {
      return std::nullopt;
    }
    taken[axis] = 1;
    axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

// The one node that all uses lead to, through elementwise nodes of the very same element that
// nothing else uses: y * sigmoid(y) is computed where y is. -1: there is none within a few steps.
common::NodeId joined_user(const Graph& graph, const std::vector<Use>& uses,
                           const std::vector<std::vector<Use>>& all_uses) {
  constexpr int kStepsMax = 8;
  common::NodeId last = -1;
  for (const Use& use : uses) last = std::max(last, use.user);
  for (const Use& use : uses) {
    common::NodeId user = use.user;
    bool direct = use.direct;
    for (int step = 0; step < kStepsMax && user != last; ++step) {
      const std::vector<Use>& next = all_uses[at(user)];
      direct = direct && is_elementwise(graph.node(user)) && next.size() == 1 && next[0].direct;
      if (!direct) return -1;
      user = next[0].user;
    }
    if (user != last || !direct) return -1;
  }
  return last >= 0 && is_elementwise(graph.node(last)) ? last : -1;
}

// All uses are by one elementwise node, of the very same element, whatever the order of axes.
bool flows_into_one(const Selected& selected, common::NodeId id, const std::vector<Use>& uses) {
  const Graph& graph = selected.graph;
  if (uses.empty()) return false;
  const Node& user = graph.node(uses[0].user);
  bool by_one = std::all_of(uses.begin(), uses.end(),
                            [&](const Use& use) { return use.user == uses[0].user; });
  if (!is_elementwise(user) || !by_one) return false;
  std::optional<Axes> way;
  for (common::NodeId operand : user.operands) {
    if (base_of(selected, operand) != id) continue;
    std::optional<Axes> axes = same_axes(graph.node(id).shape.size());
    if (operand != id) {
      const Node& view = graph.node(operand);
      if (view.operands[0] != id) return false;
      axes = permuted_axes(view, graph.node(id));
    }
    if (!axes || (way && way != axes)) return false;
    way = axes;
  }
  return way.has_value();
}

// Made of the elements of one tensor that is stored, or others use too, and of what is computed to
// find them.
bool is_moved(const Selected& selected, common::NodeId id,
              const std::vector<std::vector<Use>>& all_uses) {
  const Graph& graph = selected.graph;
  while (only_moves(graph, graph.node(id))) id = base_of(selected, graph.node(id).operands[0]);
  return graph.node(id).op == Op::kInput || has_own_template(graph.node(id)) ||
         all_uses[at(id)].size() > 1;
}

// All uses are by the parts of one Fourier transform.
bool is_transformed(const Graph& graph, const std::vector<Use>& uses) {
  return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
    return common::is_same_transform(graph.node(uses[0].user), graph.node(use.user));
  });
}

// Windows that overlap read the node's elements more than once.
bool is_read_by_windows(const Graph& graph, common::NodeId id,
                        const std::vector<std::vector<Use>>& all_uses) {
  const Use& use = all_uses[at(id)][0];
  bool is_summed = is_reductive(graph.node(use.user)) ||
                   (all_uses[at(use.user)].size() == 1 &&
                    is_product_sum(graph, graph.node(all_uses[at(use.user)][0].user)));
  if (use.direct || !is_summed) return false;
  std::vector<int64_t> sizes = common::representative_sizes(graph.symbols);
  return common::count_elements(graph.node(use.user).shape, sizes) >=
         kWindowsOverlap * common::count_elements(graph.node(id).shape, sizes);
}

// Whether the value is an operand of a product by groups, seen through casts: its kernel reads each
// matrix for many rows, and each row for many blocks of columns.
bool is_read_by_groups(const Selected& selected, common::NodeId id,
                       const std::vector<std::vector<Use>>& all_uses) {
  for (int casts = 0; casts < 3 && all_uses[at(id)].size() == 1; ++casts) {
    common::NodeId user = all_uses[at(id)][0].user;
    if (selected.lowering[at(user)] == Lowering::kGrouped) return true;
    if (!only_moves(selected.graph, selected.graph.node(user))) return false;
    id = user;
  }
  return false;
}

// Computed in a few cheap steps from where an element lies, as the mask of a concatenation is:
// there is nothing to read.
bool is_of_position(const Graph& graph, common::NodeId id) {
  std::vector<common::NodeId> steps{id};
  for (size_t k = 0; k < steps.size(); ++k) {
    const Node& node = graph.node(steps[k]);
    if (node.op == Op::kIota || (node.op == Op::kConstant && node.shape.empty())) continue;
    bool is_step = node.op == Op::kView || (is_computed(node) && is_cheap(node));
    if (!is_step || node.operands.empty() || steps.size() > kOperandStepsMax) return false;
    steps.insert(steps.end(), node.operands.begin(), node.operands.end());
  }
  return true;
}

// Whether the value is a few cheap steps from what is stored, which is about as much to read.
bool is_cheap_of_stored(const Selected& selected, common::NodeId id,
                        const Materialised& materialised) {
  constexpr int kStepsMax = 3;
  const Graph& graph = selected.graph;
  const std::vector<int64_t> sizes = common::representative_sizes(graph.symbols);
  auto bytes = [&](common::NodeId one) {
    return common::count_bytes(graph.node(one).dtype, graph.node(one).shape, sizes);
  };
  std::vector<common::NodeId> steps{id};
  double computed_bytes = 0;  // of what is stored; inputs are there in any case
  for (size_t k = 0; k < steps.size(); ++k) {
    const Node& node = graph.node(steps[k]);
    if (steps.size() > kStepsMax || !is_cheap(node)) return false;
    for (common::NodeId operand : node.operands) {
      common::NodeId base = base_of(selected, operand);
      if (!is_computed(graph.node(base)) || is_of_position(graph, base)) continue;
      if (materialised[at(base)] != 0) {
        computed_bytes += bytes(base);
      } else {
        steps.push_back(base);
      }
    }
  }
  return computed_bytes <= kReadsAsLittle * bytes(id);
}

// The value and what is computed in place for it, as far as a look at a kernel's nodes goes.
std::vector<common::NodeId> chain_of(const Selected& selected, common::NodeId id,
                                     const Materialised& materialised) {
  const Graph& graph = selected.graph;
  std::vector<common::NodeId> chain{id};
  for (size_t k = 0; k < chain.size() && chain.size() < kChainMax; ++k) {
    for (common::NodeId operand : graph.node(chain[k]).operands) {
      common::NodeId base = base_of(selected, operand);
      bool is_stored = !is_computed(graph.node(base)) || materialised[at(base)] != 0;
      if (!is_stored && !is_of_position(graph, base)) chain.push_back(base);
    }
  }
  return chain;
}

// Whether computing the value includes a sum that is not stored, and its only user would compute
// that sum again in every iteration of its outermost loop.
bool repeats_sum(const Selected& selected, common::NodeId id, const std::vector<Use>& uses,
                 const Materialised& materialised) {
  const Graph& graph = selected.graph;
  if (uses.size() != 1 || uses[0].direct) return false;
  for (common::NodeId operand : graph.node(uses[0].user).operands) {
    if (base_of(selected, operand) != id || graph.node(operand).op != Op::kView) continue;
    const common::View& view = common::attr<common::ViewAttr>(graph.node(operand)).view;
    bool outer = std::any_of(view.index.begin(), view.index.end(), [](const common::Expr& e) {
      return e.uses({common::Var::Kind::kIndex, 0});
    });
    if (outer || view.shape.empty()) return false;
  }
  std::vector<common::NodeId> chain = chain_of(selected, id, materialised);
  return std::any_of(chain.begin(), chain.end(),
                     [&](common::NodeId one) { return graph.node(one).op == Op::kReduce; });
}

// `materialised`: of the nodes before it. `follows_product`: it is made elementwise of a
// contraction, in one kernel.
bool default_in_place(const Selected& selected, common::NodeId id,
                      const std::vector<std::vector<Use>>& all_uses,
                      const Materialised& materialised, bool follows_product) {
  const Graph& graph = selected.graph;
  const Node& node = graph.node(id);
  std::vector<Use> uses = all_uses[at(id)];
  if (uses.empty() || has_own_template(node)) return false;
  if (node.op == Op::kFourier) return flows_into_one(selected, id, uses);
  if (is_transformed(graph, uses)) return is_elementwise(node);
  if (uses.size() > 1) {
    common::NodeId joined = joined_user(graph, uses, all_uses);
    if (joined < 0) {
      return uses.size() <= 4 && is_cheap_of_stored(selected, id, materialised);
    }
    uses = {{joined, true}};
  }
  if (repeats_sum(selected, id, uses, materialised)) return false;
  const Node& user = graph.node(uses[0].user);
  if (node.op == Op::kContract) {
    if (selected.may_place_rows) return is_elementwise(user) || is_copy(selected, uses[0].user);
    return is_elementwise(user) && uses[0].direct && user.shape == node.shape;
  }
  if (is_read_by_groups(selected, id, all_uses)) return is_moved(selected, id, all_uses);
  if (follows_product && is_reductive(user)) return false;  // A kernel ends at its epilogue.
  // A product reads its operands again for each block of its result.
  if (user.op == Op::kContract) {
    return is_cheap(node) && chain_of(selected, id, materialised).size() <= kOperandStepsMax;
  }
  if (has_own_template(user)) return is_elementwise(node);
  if (is_elementwise(node) && is_read_by_windows(graph, id, all_uses)) return false;
  if (node.op == Op::kReduce) {
    return is_elementwise(user) && rows_align(node.shape, user.shape) &&
           !is_product_sum(graph, node);
  }
  if (node.op == Op::kSoftmax || node.op == Op::kNorm) {
    return is_elementwise(user) && uses[0].direct;
  }
  if (node.op == Op::kGather) return is_elementwise(user);
  return true;
}

// Values that are computed once, when weights are bound, and which of these to keep.
class AtLoad {
 public:
  AtLoad(const Graph& graph, const std::vector<std::vector<Use>>& uses)
      : graph_(graph), uses_(uses), flags_(common::load_time_nodes(graph)) {}

  bool has(common::NodeId id) const { return flags_[at(id)]; }
  // A run needs the value itself, not only what is computed from it at load.
  bool is_needed_in_runs(common::NodeId id) const {
    return has(id) && std::any_of(uses_[at(id)].begin(), uses_[at(id)].end(),
                                  [&](const Use& use) { return !has(use.user); });
  }
  // Costs next to nothing where it is needed and would be more to read: a weight of a short type
  // made wider, a mask told by positions.
  bool is_better_computed(common::NodeId id) const {
    double source_bytes = 0;
    std::set<common::NodeId> seen;
    return is_all_cheap(id, seen, source_bytes) && source_bytes < bytes_of(graph_.node(id));
  }
  // The same of positions alone, so that a kernel that computes it knows in which of its loops it
  // changes.
  bool is_told_by_position(common::NodeId id) const {
    double source_bytes = 0;
    std::set<common::NodeId> seen;
    return has(id) && is_all_cheap(id, seen, source_bytes) && source_bytes == 0;
  }

 private:
  bool is_all_cheap(common::NodeId id, std::set<common::NodeId>& seen, double& source_bytes) const {
    if (!seen.insert(id).second) return true;
    const Node& node = graph_.node(id);
    const bool is_table = node.op == Op::kConstant && !node.shape.empty();
    if (node.op == Op::kInput || is_table) source_bytes += bytes_of(node);
    if (is_computed(node) && !is_cheap(node)) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](common::NodeId operand) {
      return is_all_cheap(operand, seen, source_bytes);
    });
  }

  // No size of what is computed at load is symbolic.
  static double bytes_of(const Node& node) {
    return common::count_bytes(node.dtype, node.shape, {});
  }

  const Graph& graph_;
  const std::vector<std::vector<Use>>& uses_;
  std::vector<char> flags_;
};

// Takes softmax and scores into the kernels of attention, where nothing else needs them.
void gather_attention(const Selected& selected, const std::vector<std::vector<Use>>& uses,
                      Materialised& materialised, AttentionMemo& memo) {
  const Graph& graph = selected.graph;
  std::vector<char> is_output(graph.nodes.size(), 0);
  for (const auto& output : graph.outputs) is_output[at(base_of(selected, output.node))] = 1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto id = static_cast<common::NodeId>(i);
    if (selected.lowering[i] != Lowering::kAttention) continue;
    // What is stored for any other reason than the scores is read.
    auto form = memo.find(selected, id, [&](common::NodeId other) {
      return is_output[at(other)] || has_own_template(graph.node(other)) ||
             is_copy(selected, other);
    });
    if (!form) continue;
    auto is_member = [&](common::NodeId node) { return common::contains(form->members, node); };
    bool own = std::all_of(form->members.begin(), form->members.end(), [&](common::NodeId member) {
      return member == id || std::all_of(uses[at(member)].begin(), uses[at(member)].end(),
                                         [&](const Use& use) { return is_member(use.user); });
    });
    if (!own) continue;
    for (common::NodeId member : form->members) {
      if (member != id) materialised[at(member)] = 0;
    }
    // Each block of rows reads all keys and values: what they take is done once, before.
    for (common::NodeId read : {form->keys, form->values}) {
      common::NodeId base = base_of(selected, read);
      if (is_computed(graph.node(base))) materialised[at(base)] = 1;
    }
  }
}

// What is made of a transform's elements is stored where something else than elementwise work takes
// it, so that the transform's kernel ends there.
void store_after_transforms(const Selected& selected, const std::vector<std::vector<Use>>& uses,
                            Materialised& materialised) {
  const Graph& graph = selected.graph;
  std::vector<char> holds(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == Op::kFourier) {
      holds[i] = 1;
    } else if (is_elementwise(node)) {
      for (common::NodeId operand : node.operands) {
        common::NodeId base = base_of(selected, operand);
        if (holds[at(base)] && !materialised[at(base)]) holds[i] = 1;
      }
    }
    auto id = static_cast<common::NodeId>(i);
    if (holds[i] && !flows_into_one(selected, id, uses[i])) materialised[i] = 1;
  }
}

// What is only a wider spelling of a computed value is stored as that value: fewer bytes to write
// and to read, and contractions see that their operands are of a short type.
void store_short(const Selected& selected, Materialised& materialised) {
  const Graph& graph = selected.graph;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (!materialised[i] || node.op != Op::kCast) continue;
    common::NodeId narrow = base_of(selected, node.operands[0]);
    const Node& source = graph.node(narrow);
    if (!is_computed(source)) continue;
    if (common::dtype_size(source.dtype) >= common::dtype_size(node.dtype)) continue;
    materialised[i] = 0;
    materialised[at(narrow)] = 1;
  }
}

}  // namespace

bool is_cheap(const Node& node) {
  if (node.op == Op::kSelect || node.op == Op::kCast) return true;
  if (node.op == Op::kUnary) {
    UnaryOp op = common::attr<common::UnaryAttr>(node).op;
    return op <= UnaryOp::kNot;
  }
  if (node.op == Op::kBinary) {
    BinaryOp op = common::attr<common::BinaryAttr>(node).op;
    return op <= BinaryOp::kMul || op == BinaryOp::kMin || op == BinaryOp::kMax ||
           op >= BinaryOp::kAnd;
  }
  return false;
}

std::optional<AttentionParts> attention_at(const Selected& selected,
                                           const Materialised& materialised, common::NodeId id,
                                           AttentionMemo& memo) {
  if (selected.lowering[at(id)] != Lowering::kAttention) return std::nullopt;
  return memo.find(selected, id, [&](common::NodeId other) {
    return other != id && is_materialised(selected, materialised, other);
  });
}

bool is_computed(const Node& node) {
  return node.op != Op::kInput && node.op != Op::kConstant && node.op != Op::kIota &&
         node.op != Op::kView;
}

bool is_materialised(const Selected& selected, const Materialised& materialised,
                     common::NodeId id) {
  return (is_computed(selected.graph.node(id)) && materialised[at(id)]) || is_copy(selected, id);
}

common::NodeId base_of(const Selected& selected, common::NodeId id) {
  while (selected.graph.node(id).op == Op::kView && !is_copy(selected, id)) {
    id = selected.graph.node(id).operands[0];
  }
  return id;
}

common::NodeId Selected::add(Node node, Lowering node_lowering, ClassId node_gene,
                             NodeId node_choice) {
  graph.nodes.push_back(std::move(node));
  lowering.push_back(node_lowering);
  gene.push_back(node_gene);
  choice.push_back(node_choice);
  return static_cast<common::NodeId>(graph.nodes.size()) - 1;
}

Selected select_all(const Graph& graph) {
  Selected selected;
  selected.graph = graph;
  selected.lowering.assign(graph.nodes.size(), Lowering::kInPlace);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    selected.gene.push_back(static_cast<ClassId>(i));
    selected.choice.push_back(static_cast<NodeId>(i));
  }
  return selected;
}

Materialised plain_materialisation(const Selected& selected) {
  const Graph& graph = selected.graph;
  Materialised materialised(graph.nodes.size(), 1);
  auto uses = uses_of(selected);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_product_sum(graph, graph.nodes[i])) continue;
    common::NodeId product = graph.nodes[i].operands[0];
    if (uses[at(product)].size() == 1) materialised[at(product)] = 0;
  }
  AttentionMemo memo;
  repair_materialisation(selected, materialised, memo);
  return materialised;
}

Materialised default_materialisation(const Selected& selected, AttentionMemo& memo) {
  const Graph& graph = selected.graph;
  Materialised materialised(graph.nodes.size(), 0);
  auto uses = uses_of(selected);
  AtLoad at_load(graph, uses);
  std::vector<common::NodeId> follows(graph.nodes.size(), -1);  // the contraction; -1: none
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto id = static_cast<common::NodeId>(i);
    const Node& node = graph.nodes[i];
    if (!is_computed(node)) continue;
    bool keep = at_load.is_needed_in_runs(id) && !at_load.is_better_computed(id);
    // One of few rows is no tile: its kernel may take others in.
    if (node.op == Op::kContract && !common::has_few_rows(common::tile_problem(graph, node))) {
      follows[i] = id;
    }
    for (common::NodeId operand : node.operands) {
      const auto base = at(base_of(selected, operand));
      if (!is_elementwise(node) || materialised[base] != 0 || follows[base] < 0) continue;
      // Where two products meet, one of them ends its kernel after its own epilogue.
      bool is_other = follows[i] >= 0 && follows[i] != follows[base];
      if (is_other) materialised[base] = 1;
      if (!is_other) follows[i] = follows[base];
    }
    const bool in_place = !uses[i].empty() && at_load.is_told_by_position(id);
    materialised[i] = keep || (!in_place && !default_in_place(selected, id, uses, materialised,
                                                              follows[i] >= 0 && follows[i] != id));
  }
  gather_attention(selected, uses, materialised, memo);
  store_after_transforms(selected, uses, materialised);
  store_short(selected, materialised);
  repair_materialisation(selected, materialised, memo);
  return materialised;
}

}  // namespace coordinator
