#include "coordinator/search/fusion/fusion.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/contains.h"
#include "common/base/hash64.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/llir/load_time.h"
#include "coordinator/search/fusion/multi_output.h"

namespace coordinator {
namespace {

using common::at;
using common::Graph;
using common::GraphBuilder;
using common::Node;
using common::Op;
using common::Template;

class ProgramBuilder {
 public:
  ProgramBuilder(const Selected& selected, const Materialised& materialised,
                 const std::vector<common::NodeId>& writers, KernelMemo& memo,
                 LaunchSharing sharing)
      : sharing_(sharing),
        selected_(selected),
        graph_(selected.graph),
        materialised_(materialised),
        writers_(writers),
        memo_(memo) {}

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
      if (writers_[i] != static_cast<common::NodeId>(i))
        further_outputs_[writers_[i]].push_back(at_id(i));
      note_scalar(i);
      if (is_leaf(at_id(i), -1)) node_of_[selected_.gene[i]] = at_id(i);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == Op::kInput) buffer_of(selected_.gene[i]);
      bool is_stored = is_materialised(selected_, materialised_, at_id(i)) && !is_scalar_[i];
      if (is_stored || !output_positions_[i].empty()) {
        add_kernel(writers_[i]);
      }
    }
    if (sharing_ != LaunchSharing::kNever) add_launches();
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
        result_.held_bytes += common::count_bytes(buffer.dtype, buffer.shape, {});
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
    return node.op == Op::kInput || (is_materialised(selected_, materialised_, id) &&
                                     writers_[at(id)] != root && !is_scalar_[at(id)]);
  }

  // Positions, their bounds and the like: on a GPU each kernel computes them again sooner than it
  // waits for another launch.
  void note_scalar(size_t i) {
    const Node& node = graph_.nodes[i];
    bool is_scalar = sharing_ == LaunchSharing::kOnGpu && writers_[i] == at_id(i) &&
                     is_cheap(node) && further_outputs_.count(at_id(i)) == 0 &&
                     std::all_of(node.shape.begin(), node.shape.end(),
                                 [](const common::Expr& size) { return size.is_constant(1); });
    for (common::NodeId operand : node.operands) {
      common::NodeId base = base_of(selected_, operand);
      is_scalar = is_scalar && (!is_computed(graph_.node(base)) || is_scalar_[at(base)]);
    }
    is_scalar_.push_back(is_scalar);
  }

  // What the kernel at `root` writes: its own value, then its further outputs.
  std::vector<common::NodeId> values_of(common::NodeId root) const {
    std::vector<common::NodeId> values{root};
    if (auto it = further_outputs_.find(root); it != further_outputs_.end()) {
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
    return template_of(selected_, materialised_, root);
  }

  // Several roots: a horizontal kernel.
  std::shared_ptr<const BuiltKernel> build(const std::vector<common::NodeId>& roots) const {
    auto built = std::make_shared<BuiltKernel>();
    GraphBuilder builder(graph_.symbols);
    std::map<common::NodeId, common::NodeId> copied;
    for (common::NodeId root : roots) {
      for (common::NodeId value : values_of(root)) {
        common::NodeId result = copy(value, root, builder, copied, built->inputs);
        for (size_t k = 0; k < copies_of(value); ++k) builder.output(result);
      }
    }
    common::Canonical body = common::canonical_without_unused_symbols(builder.finish());
    built->symbols = std::move(body.symbols);
    built->kernel.form = roots.size() > 1 ? Template::kHorizontal : form_of(roots[0], body.graph);
    built->kernel.body = std::move(body.graph);
    built->body = common::graph_hash(built->kernel.body);
    return built;
  }

  std::shared_ptr<const BuiltKernel> kernel_of(const std::vector<common::NodeId>& roots) const {
    uint64_t key = 0;
    for (common::NodeId root : roots) {
      std::map<common::NodeId, uint64_t> known;
      for (common::NodeId value : values_of(root)) {
        key = common::combine64(key,
                                common::combine64(signature(value, root, known), copies_of(value)));
      }
    }
    std::shared_ptr<const BuiltKernel>& memo = memo_[key];
    if (!memo) memo = build(roots);
    return memo;
  }

  // Adds the kernel at `root` once, behind those that it reads from.
  void add_kernel(common::NodeId root) {
    if (!added_.insert(root).second) return;
    std::shared_ptr<const BuiltKernel> built = kernel_of({root});
    for (ClassId input : built->inputs) {
      common::NodeId node = node_of_.at(input);
      if (graph_.node(node).op != Op::kInput) add_kernel(writers_[at(node)]);
    }
    if (sharing_ != LaunchSharing::kNever) {
      in_order_.emplace_back(root, std::move(built));
    } else {
      add_call({root}, built);
    }
  }

  void add_launches() {
    std::vector<int64_t> sizes = common::representative_sizes(graph_.symbols);
    std::vector<char> at_load = common::load_time_nodes(graph_);
    std::map<common::NodeId, size_t> place;
    std::vector<LaunchedKernel> kernels;
    for (const auto& [root, built] : in_order_) {
      LaunchedKernel kernel;
      kernel.can_join = at_load[at(root)] == 0 &&
                        may_share(sharing_, built->kernel, bytes_of(built->kernel.body, sizes));
      kernel.outputs = built->kernel.body.outputs.size();
      for (ClassId input : built->inputs) {
        common::NodeId node = node_of_.at(input);
        if (graph_.node(node).op == Op::kInput) continue;
        kernel.follows.push_back(place.at(writers_[at(node)]));
      }
      // What a scatter overwrites in place others have read before.
      for (size_t k = 0; k < kernels.size(); ++k) {
        if (overwrites_input_of(root, *built, *in_order_[k].second)) kernel.follows.push_back(k);
      }
      place[root] = kernels.size();
      kernels.push_back(std::move(kernel));
    }
    for (const std::vector<size_t>& launch : share_launches(kernels)) {
      std::vector<common::NodeId> roots;
      for (size_t k : launch) roots.push_back(in_order_[k].first);
      add_call(roots, kernel_of(roots));
    }
  }

  // Whether the kernel at `root` is a scatter into what the other one reads.
  bool overwrites_input_of(common::NodeId root, const BuiltKernel& built,
                           const BuiltKernel& other) const {
    if (built.kernel.form != Template::kScatter) return false;
    return std::any_of(built.inputs.begin(), built.inputs.end(), [&](ClassId input) {
      return is_base(root, input) && common::contains(other.inputs, input);
    });
  }

  // Whether the scatter at `root` is of the value with that gene.
  bool is_base(common::NodeId root, ClassId input) const {
    common::NodeId base = base_of(selected_, graph_.node(root).operands[0]);
    return selected_.gene[at(base)] == input;
  }

  static double bytes_of(const Graph& body, const std::vector<int64_t>& sizes) {
    double bytes = 0;
    for (double read : common::bytes_read(body, sizes)) bytes += read;
    for (double written : common::bytes_written(body, sizes)) bytes += written;
    return bytes;
  }

  void add_call(const std::vector<common::NodeId>& roots,
                const std::shared_ptr<const BuiltKernel>& built) {
    common::Call call;
    for (ClassId input : built->inputs) call.inputs.push_back(buffer_of(input));
    for (int symbol : built->symbols) call.symbols.push_back(common::Expr::symbol(symbol));
    for (common::NodeId root : roots) add_outputs(root, call);
    ClassId gene = selected_.gene[at(roots[0])];
    auto [it, is_new] = known_.emplace(std::pair{built->kernel.form, built->body},
                                       static_cast<int>(result_.kernels.size()));
    if (is_new) {
      result_.kernels.push_back(built);
      result_.genes.push_back(gene);
    }
    call.kernel = it->second;
    result_.shell.calls.push_back(std::move(call));
  }

  void add_outputs(common::NodeId root, common::Call& call) {
    for (common::NodeId value : values_of(root)) {
      const Node& node = graph_.node(value);
      size_t first = call.outputs.size();
      for (int position : output_positions_[at(value)]) {
        call.outputs.push_back(add_buffer(common::BufferKind::kOutput, position, node));
      }
      if (output_positions_[at(value)].empty()) {
        call.outputs.push_back(add_buffer(common::BufferKind::kTemporary, 0, node));
      }
      if (is_materialised(selected_, materialised_, value)) {
        buffer_[selected_.gene[at(value)]] = call.outputs[first];
      }
    }
  }

  const LaunchSharing sharing_;
  std::vector<char> is_scalar_;  // by node, see note_scalar
  const Selected& selected_;
  const Graph& graph_;
  const Materialised& materialised_;
  const std::vector<common::NodeId>& writers_;
  KernelMemo& memo_;
  FusedProgram result_;
  std::vector<std::vector<int>> output_positions_;
  std::map<common::NodeId, std::vector<common::NodeId>> further_outputs_;  // by writer
  std::unordered_map<ClassId, common::NodeId> node_of_;  // of what kernels may read
  std::set<common::NodeId> added_;
  // Where launches are shared: kernels that have no call yet, each behind those that it reads from.
  std::vector<std::pair<common::NodeId, std::shared_ptr<const BuiltKernel>>> in_order_;
  std::unordered_map<ClassId, int> buffer_;  // of stored values and inputs, by gene
  std::map<std::pair<Template, common::Digest>, int> known_;
};

}  // namespace

FusedProgram fuse(const Selected& selected, const Materialised& materialised, KernelMemo& memo,
                  const std::vector<int64_t>& wishes, LaunchSharing sharing) {
  return ProgramBuilder(selected, materialised, plan_writers(selected, materialised, wishes), memo,
                        sharing)
      .run();
}

common::Program whole_program(const FusedProgram& fused) {
  common::Program program = fused.shell;
  for (const auto& built : fused.kernels) program.kernels.push_back(built->kernel);
  return program;
}

}  // namespace coordinator
