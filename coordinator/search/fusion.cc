#include "coordinator/search/fusion.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/hash64.h"
#include "common/ir/attention_form.h"
#include "common/ir/builder.h"
#include "common/ir/gemm_form.h"
#include "common/ir/graph_hash.h"
#include "common/ir/load_time.h"
#include "coordinator/search/joint_kernels.h"

namespace coordinator {
namespace {

using common::BinaryOp;
using common::Graph;
using common::GraphBuilder;
using common::Node;
using common::Op;
using common::Template;
using common::UnaryOp;

size_t at(common::NodeId id) { return static_cast<size_t>(id); }

bool is_elementwise(const Node& node) {
  return node.op == Op::kUnary || node.op == Op::kBinary || node.op == Op::kSelect ||
         node.op == Op::kCast;
}

// A handful of machine instructions.
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

bool is_reductive(const Node& node) {
  return node.op == Op::kReduce || node.op == Op::kSoftmax || node.op == Op::kNorm ||
         node.op == Op::kContract;
}

bool has_own_template(const Node& node) {
  return node.op == Op::kScan || node.op == Op::kScatter || node.op == Op::kSort;
}

bool is_product_sum(const Graph& graph, const Node& node) {
  if (node.op != Op::kReduce ||
      common::attr<common::ReduceAttr>(node).op != common::ReduceOp::kSum) {
    return false;
  }
  const Node& operand = graph.node(node.operands[0]);
  return operand.op == Op::kBinary &&
         common::attr<common::BinaryAttr>(operand).op == BinaryOp::kMul;
}

common::NodeId base_of(const Graph& graph, common::NodeId id) {
  while (graph.node(id).op == Op::kView) id = graph.node(id).operands[0];
  return id;
}

// A use of a node by a computed node, seen through views.
struct Use {
  common::NodeId user;
  bool direct;  // without a view between
};

std::vector<std::vector<Use>> uses_of(const Graph& graph) {
  std::vector<std::vector<Use>> uses(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_computed(graph.nodes[i])) continue;
    for (common::NodeId operand : graph.nodes[i].operands) {
      common::NodeId base = base_of(graph, operand);
      uses[at(base)].push_back({static_cast<common::NodeId>(i), base == operand});
    }
  }
  for (const auto& output : graph.outputs) {
    common::NodeId base = base_of(graph, output.node);
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

bool default_in_place(const Graph& graph, common::NodeId id, const std::vector<Use>& uses) {
  const Node& node = graph.node(id);
  if (uses.empty() || has_own_template(node)) return false;
  if (uses.size() > 1) {
    if (!is_cheap(node) || uses.size() > 4) return false;
    // Recomputing must not drag a long chain along.
    return std::all_of(node.operands.begin(), node.operands.end(), [&](common::NodeId operand) {
      return !is_computed(graph.node(base_of(graph, operand)));
    });
  }
  const Node& user = graph.node(uses[0].user);
  if (node.op == Op::kContract) {
    return is_elementwise(user) && uses[0].direct && user.shape == node.shape;
  }
  if (user.op == Op::kContract) return is_cheap(node);
  if (has_own_template(user)) return is_elementwise(node);
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

double bytes_of(const Node& node) {
  double bytes = common::dtype_size(node.dtype);
  for (const common::Expr& size : node.shape) bytes *= static_cast<double>(size.evaluate({}));
  return bytes;
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

 private:
  bool is_all_cheap(common::NodeId id, std::set<common::NodeId>& seen, double& source_bytes) const {
    if (!seen.insert(id).second) return true;
    const Node& node = graph_.node(id);
    if (node.op == Op::kInput) source_bytes += bytes_of(node);
    if (is_computed(node) && !is_cheap(node)) return false;
    return std::all_of(node.operands.begin(), node.operands.end(), [&](common::NodeId operand) {
      return is_all_cheap(operand, seen, source_bytes);
    });
  }

  const Graph& graph_;
  const std::vector<std::vector<Use>>& uses_;
  std::vector<char> flags_;
};
// The attention around a contraction that is lowered so, if one kernel can hold it.
std::optional<common::AttentionForm> attention_at(const Selected& selected, const Stores& stores,
                                                  common::NodeId id) {
  const Graph& graph = selected.graph;
  if (selected.lowering[at(id)] != Lowering::kAttention) return std::nullopt;
  return common::attention_form(graph, id, [&](common::NodeId other) {
    return other != id && stores[at(other)] && is_computed(graph.node(other));
  });
}

// Takes softmax and scores into the kernels of attention, where nothing else needs them.
void gather_attention(const Selected& selected, const std::vector<std::vector<Use>>& uses,
                      Stores& stores) {
  const Graph& graph = selected.graph;
  std::vector<char> is_output(graph.nodes.size(), 0);
  for (const auto& output : graph.outputs) is_output[at(base_of(graph, output.node))] = 1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto id = static_cast<common::NodeId>(i);
    if (selected.lowering[i] != Lowering::kAttention) continue;
    // What is stored for any other reason than the scores is read.
    auto form = common::attention_form(graph, id, [&](common::NodeId other) {
      return is_output[at(other)] || has_own_template(graph.node(other));
    });
    if (!form) continue;
    auto is_member = [&](common::NodeId node) {
      return std::find(form->members.begin(), form->members.end(), node) != form->members.end();
    };
    bool own = std::all_of(form->members.begin(), form->members.end(), [&](common::NodeId member) {
      return member == id || std::all_of(uses[at(member)].begin(), uses[at(member)].end(),
                                         [&](const Use& use) { return is_member(use.user); });
    });
    if (!own) continue;
    for (common::NodeId member : form->members) {
      if (member != id) stores[at(member)] = 0;
    }
    // Each block of rows reads all keys and values: what they take is done once, before.
    for (common::NodeId read : {graph.node(form->scores).operands[at(1 - form->queries)],
                                graph.node(id).operands[at(1 - form->probabilities)]}) {
      common::NodeId base = base_of(graph, read);
      if (is_computed(graph.node(base))) stores[at(base)] = 1;
    }
  }
}

}  // namespace

bool is_computed(const Node& node) {
  return node.op != Op::kInput && node.op != Op::kConstant && node.op != Op::kIota &&
         node.op != Op::kView;
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

Stores plain_stores(const Selected& selected) {
  const Graph& graph = selected.graph;
  Stores stores(graph.nodes.size(), 1);
  auto uses = uses_of(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_product_sum(graph, graph.nodes[i])) continue;
    common::NodeId product = graph.nodes[i].operands[0];
    if (uses[at(product)].size() == 1) stores[at(product)] = 0;
  }
  repair_stores(selected, stores);
  return stores;
}

Stores default_stores(const Selected& selected) {
  const Graph& graph = selected.graph;
  Stores stores(graph.nodes.size(), 0);
  auto uses = uses_of(graph);
  AtLoad at_load(graph, uses);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto id = static_cast<common::NodeId>(i);
    if (!is_computed(graph.nodes[i])) continue;
    bool keep = at_load.is_needed_in_runs(id) && !at_load.is_better_computed(id);
    stores[i] = keep || !default_in_place(graph, id, uses[i]);
  }
  gather_attention(selected, uses, stores);
  repair_stores(selected, stores);
  return stores;
}

namespace {

// Finds what a kernel rooted at `root` holds that its template cannot: the node to store, if any.
class TileCheck {
 public:
  TileCheck(const Selected& selected, const Stores& stores, common::NodeId root)
      : selected_(selected), stores_(stores), root_(root) {}

  std::optional<common::NodeId> offender() {
    visit(root_, true);
    if (contraction_ < 0) return std::nullopt;
    return offender_ ? offender_ : reductive_;
  }
  // The contraction that the kernel is built around; -1 when there is none.
  common::NodeId contraction() const { return contraction_; }
  bool is_attention() const { return is_attention_; }

 private:
  // on_spine: the value is needed at exactly the root's indices.
  void visit(common::NodeId id, bool on_spine) {
    const Node& node = selected_.graph.node(id);
    if (id != root_ && (stores_[at(id)] && is_computed(node))) return;
    if (!seen_.insert({id, on_spine}).second) return;
    if (node.op == Op::kContract) {
      bool second = contraction_ >= 0;
      if (!on_spine || (second && contraction_ != id)) {
        offender_ = id;
        if (!second) contraction_ = id;
        return;
      }
      contraction_ = id;
      if (node.shape != selected_.graph.node(root_).shape) offender_ = id;
      if (auto form = attention_at(selected_, stores_, id)) {
        is_attention_ = true;
        if (!form->obstacles.empty()) offender_ = form->obstacles[0];
        return;
      }
    } else if (is_reductive(node) && !reductive_ && id != root_) {
      reductive_ = id;
    }
    bool stays = on_spine && is_elementwise(node);
    for (common::NodeId operand : node.operands) visit(operand, stays);
  }

  const Selected& selected_;
  const Stores& stores_;
  common::NodeId root_;
  common::NodeId contraction_ = -1;
  bool is_attention_ = false;
  std::optional<common::NodeId> offender_;
  std::optional<common::NodeId> reductive_;
  std::set<std::pair<common::NodeId, bool>> seen_;
};

void require_stored_operands(const Selected& selected, const Node& node, Stores& stores) {
  for (common::NodeId operand : node.operands) {
    common::NodeId base = base_of(selected.graph, operand);
    if (is_computed(selected.graph.node(base))) stores[at(base)] = 1;
  }
}

// Scores that an attention takes into its kernel, whatever their own lowering.
std::vector<char> scores_in_attention(const Selected& selected, const Stores& stores) {
  std::vector<char> taken(selected.graph.nodes.size(), 0);
  for (size_t i = 0; i < taken.size(); ++i) {
    auto form = attention_at(selected, stores, static_cast<common::NodeId>(i));
    if (form && form->scores != static_cast<common::NodeId>(i)) taken[at(form->scores)] = 1;
  }
  return taken;
}

// Stores what a kernel rooted at `root`, and at what is stored on the way, cannot hold.
void repair_kernel(const Selected& selected, common::NodeId root, Stores& stores) {
  std::vector<common::NodeId> troubled{root};
  while (!troubled.empty()) {
    auto offender = TileCheck(selected, stores, troubled.back()).offender();
    if (offender) {
      stores[at(*offender)] = 1;
      // A stored node is an earlier root that may have troubles of its own.
      troubled.push_back(*offender);
    } else {
      troubled.pop_back();
    }
  }
}

}  // namespace

void repair_stores(const Selected& selected, Stores& stores) {
  const Graph& graph = selected.graph;
  std::vector<char> is_output(graph.nodes.size(), 0);
  for (const auto& output : graph.outputs) {
    is_output[at(output.node)] = 1;
    if (is_computed(graph.node(output.node))) stores[at(output.node)] = 1;
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (has_own_template(graph.nodes[i])) stores[i] = 1;
  }
  // Storing one node only shrinks other kernels, but it may end an attention, whose parts then need
  // what others need. Stores only grow, so this ends.
  for (Stores before; before != stores;) {
    std::vector<char> taken = scores_in_attention(selected, stores);
    before = stores;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.op == Op::kContract && selected.lowering[i] == Lowering::kGemm && !taken[i]) {
        stores[i] = 1;
        require_stored_operands(selected, node, stores);
      }
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      bool is_root = (is_computed(graph.nodes[i]) && stores[i]) || is_output[i];
      if (is_root) repair_kernel(selected, static_cast<common::NodeId>(i), stores);
    }
    if (std::count(taken.begin(), taken.end(), 1) == 0) break;
  }
}

namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(const Selected& selected, const Stores& stores,
                 const std::vector<common::NodeId>& hosts, KernelMemo& memo)
      : selected_(selected), graph_(selected.graph), stores_(stores), hosts_(hosts), memo_(memo) {}

  FusedProgram run() {
    common::Program& shell = result_.shell;
    shell.symbols = graph_.symbols;
    shell.inputs = graph_.inputs;
    for (common::GraphInput& input : shell.inputs) input.name.clear();
    for (common::GraphOutput output : graph_.outputs) {
      output.node = -1;
      shell.outputs.push_back(output);
    }
    output_positions_.resize(graph_.nodes.size());
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      output_positions_[at(graph_.outputs[k].node)].push_back(static_cast<int>(k));
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (hosts_[i] != static_cast<common::NodeId>(i)) guests_[hosts_[i]].push_back(at_id(i));
      if (is_leaf(at_id(i), -1)) node_of_[selected_.gene[i]] = at_id(i);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == Op::kInput) buffer_of(selected_.gene[i]);
      if ((is_computed(node) && stores_[i]) || !output_positions_[i].empty()) add_kernel(hosts_[i]);
    }
    note_load_time();
    return std::move(result_);
  }

 private:
  void note_load_time() {
    const common::Program& shell = result_.shell;
    result_.at_load = common::load_time_calls(shell);
    std::vector<char> held(shell.buffers.size(), 0);
    for (size_t c = 0; c < shell.calls.size(); ++c) {
      for (int id : shell.calls[c].outputs) held[at(id)] = result_.at_load[c];
      if (result_.at_load[c]) continue;
      for (int id : shell.calls[c].inputs) {
        if (!std::exchange(held[at(id)], 0)) continue;
        const common::Buffer& buffer = shell.buffers[at(id)];
        result_.held_bytes += bytes_of({.dtype = buffer.dtype, .shape = buffer.shape});
      }
    }
  }

  int add_buffer(common::BufferKind kind, int position, const Node& node) {
    auto& buffers = result_.shell.buffers;
    buffers.push_back({kind, position, node.dtype, node.shape});
    return static_cast<int>(buffers.size()) - 1;
  }

  static common::NodeId at_id(size_t index) { return static_cast<common::NodeId>(index); }

  // Of what is an input or has been written.
  int buffer_of(ClassId gene) {
    if (auto it = buffer_.find(gene); it != buffer_.end()) return it->second;
    const Node& node = graph_.node(node_of_.at(gene));
    LFARM_CHECK(node.op == Op::kInput, "a value is read before it is written");
    int position = common::attr<common::InputAttr>(node).position;
    return buffer_[gene] = add_buffer(common::BufferKind::kInput, position, node);
  }

  // Read by the kernel at `root`, not computed by it.
  bool is_leaf(common::NodeId id, common::NodeId root) const {
    const Node& node = graph_.node(id);
    return node.op == Op::kInput ||
           (is_computed(node) && stores_[at(id)] && hosts_[at(id)] != root);
  }

  // What the kernel at `root` writes: its own value, then those of its guests.
  std::vector<common::NodeId> values_of(common::NodeId root) const {
    std::vector<common::NodeId> values{root};
    if (auto it = guests_.find(root); it != guests_.end()) {
      values.insert(values.end(), it->second.begin(), it->second.end());
    }
    return values;
  }
  // A value that is several outputs of the graph is written to each.
  size_t copies_of(common::NodeId value) const {
    return std::max<size_t>(1, output_positions_[at(value)].size());
  }

  // Of everything that copy() would walk.
  uint64_t signature(common::NodeId id, common::NodeId root,
                     std::map<common::NodeId, uint64_t>& known) const {
    if (auto it = known.find(id); it != known.end()) return it->second;
    bool leaf = is_leaf(id, root);
    uint64_t hash =
        common::combine64(leaf ? 1 : 2, leaf ? selected_.gene[at(id)] : selected_.choice[at(id)]);
    if (!leaf) {
      for (common::NodeId operand : graph_.node(id).operands) {
        hash = common::combine64(hash, signature(operand, root, known));
      }
    }
    known[id] = hash;
    return hash;
  }

  // Copies the root and what it computes in place; stored values become inputs.
  common::NodeId copy(common::NodeId id, common::NodeId root, GraphBuilder& builder,
                      std::map<common::NodeId, common::NodeId>& copied,
                      std::vector<ClassId>& inputs) const {
    if (auto it = copied.find(id); it != copied.end()) return it->second;
    const Node& node = graph_.node(id);
    common::NodeId result;
    if (is_leaf(id, root)) {
      result = builder.input(common::InputKind::kUser, node.dtype, node.shape, "");
      inputs.push_back(selected_.gene[at(id)]);
    } else {
      Node twin = node;
      for (common::NodeId& operand : twin.operands)
        operand = copy(operand, root, builder, copied, inputs);
      result = builder.raw(std::move(twin));
    }
    copied[id] = result;
    return result;
  }

  Template form_of(common::NodeId root, const Graph& body) const {
    const Node& node = graph_.node(root);
    if (node.op == Op::kScan) return Template::kScan;
    if (node.op == Op::kScatter) return Template::kScatter;
    if (node.op == Op::kSort) return Template::kSort;
    if (node.op == Op::kContract && selected_.lowering[at(root)] == Lowering::kGemm &&
        common::gemm_form(body)) {
      return Template::kGemm;
    }
    TileCheck check(selected_, stores_, root);
    LFARM_CHECK(!check.offender(), "the stores were not repaired");
    if (check.is_attention()) return Template::kAttention;
    return check.contraction() >= 0 ? Template::kTile : Template::kLoops;
  }

  std::shared_ptr<const BuiltKernel> build(common::NodeId root) const {
    auto built = std::make_shared<BuiltKernel>();
    GraphBuilder builder(graph_.symbols);
    std::map<common::NodeId, common::NodeId> copied;
    for (common::NodeId value : values_of(root)) {
      common::NodeId result = copy(value, root, builder, copied, built->inputs);
      for (size_t k = 0; k < copies_of(value); ++k) builder.output(result);
    }
    common::Canonical body = common::canonical_without_unused_symbols(builder.finish());
    built->symbols = std::move(body.symbols);
    built->kernel.form = form_of(root, body.graph);
    built->kernel.body = std::move(body.graph);
    built->body = common::graph_hash(built->kernel.body);
    return built;
  }

  // Adds the kernel at `root` once, behind those that it reads from.
  void add_kernel(common::NodeId root) {
    if (!added_.insert(root).second) return;
    std::map<common::NodeId, uint64_t> known;
    uint64_t key = 0;
    for (common::NodeId value : values_of(root)) {
      key = common::combine64(key,
                              common::combine64(signature(value, root, known), copies_of(value)));
    }
    std::shared_ptr<const BuiltKernel>& memo = memo_[key];
    if (!memo) memo = build(root);
    std::shared_ptr<const BuiltKernel> built = memo;
    common::Call call;
    for (ClassId input : built->inputs) {
      common::NodeId node = node_of_.at(input);
      if (is_computed(graph_.node(node))) add_kernel(hosts_[at(node)]);
      call.inputs.push_back(buffer_of(input));
    }
    for (int symbol : built->symbols) call.symbols.push_back(common::Expr::symbol(symbol));
    for (common::NodeId value : values_of(root)) {
      const Node& node = graph_.node(value);
      size_t first = call.outputs.size();
      for (int position : output_positions_[at(value)]) {
        call.outputs.push_back(add_buffer(common::BufferKind::kOutput, position, node));
      }
      if (output_positions_[at(value)].empty()) {
        call.outputs.push_back(add_buffer(common::BufferKind::kTemporary, 0, node));
      }
      if (is_computed(node)) buffer_[selected_.gene[at(value)]] = call.outputs[first];
    }
    ClassId gene = selected_.gene[at(root)];
    auto [it, is_new] = known_.emplace(std::pair{built->kernel.form, built->body},
                                       static_cast<int>(result_.kernels.size()));
    if (is_new) {
      result_.kernels.push_back(built);
      result_.genes.push_back(gene);
    }
    call.kernel = it->second;
    result_.shell.calls.push_back(std::move(call));
  }

  const Selected& selected_;
  const Graph& graph_;
  const Stores& stores_;
  const std::vector<common::NodeId>& hosts_;
  KernelMemo& memo_;
  FusedProgram result_;
  std::vector<std::vector<int>> output_positions_;
  std::map<common::NodeId, std::vector<common::NodeId>> guests_;  // by host
  std::unordered_map<ClassId, common::NodeId> node_of_;           // of what kernels may read
  std::set<common::NodeId> added_;
  std::unordered_map<ClassId, int> buffer_;  // of stored values and inputs, by gene
  std::map<std::pair<Template, common::Digest>, int> known_;
};

}  // namespace

FusedProgram fuse(const Selected& selected, const Stores& stores, KernelMemo& memo,
                  const std::vector<int64_t>& wishes) {
  return ProgramBuilder(selected, stores, plan_hosts(selected, stores, wishes), memo).run();
}

common::Program whole_program(const FusedProgram& fused) {
  common::Program program = fused.shell;
  for (const auto& built : fused.kernels) program.kernels.push_back(built->kernel);
  return program;
}

}  // namespace coordinator
