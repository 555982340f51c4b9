#include "clients/pt2/translate.h"

#include <algorithm>
#include <unordered_set>

#include "clients/pt2/archive/archive.h"
#include "clients/pt2/archive/node_source.h"
#include "clients/pt2/archive/one_line.h"
#include "clients/pt2/archive/written_inputs.h"
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/sympy_parser.h"
#include "clients/pt2/aten/translate_context.h"
#include "clients/pt2/foreach_nodes.h"
#include "clients/pt2/nested_graphs.h"
#include "clients/pt2/operator_table.h"
#include "common/base/cat.h"
#include "common/ir/hlir/verify.h"
#include "common/text/tensor_origin.h"

namespace clients {
namespace {

using common::cat;
using common::Result;
using common::Status;

bool is_complex_type(ScalarType type) {
  return type == ScalarType::kComplex64 || type == ScalarType::kComplex128;
}

// Names that some node or output reads.
std::unordered_set<std::string> used_names(const ExportGraph& graph) {
  std::unordered_set<std::string> used;
  auto note = [&used](const Argument& argument) {
    if (auto* tensor = std::get_if<TensorArgument>(&argument)) used.insert(tensor->name);
    if (auto* list = std::get_if<TensorListArgument>(&argument)) {
      used.insert(list->names.begin(), list->names.end());
    }
    if (const std::string* number = number_name(argument)) used.insert(*number);
    if (auto* sizes = std::get_if<std::vector<SymIntArgument>>(&argument)) {
      for (const SymIntArgument& size : *sizes) used.insert(size.name);
    }
  };
  for (const ExportNode& node : graph.nodes) {
    for (const NamedArgument& input : node.inputs) note(input.value);
  }
  for (const Argument& output : graph.outputs) note(output);
  return used;
}

// By name the first node that reads a tensor.
std::unordered_map<std::string, const ExportNode*> first_readers(const ExportGraph& graph) {
  std::unordered_map<std::string, const ExportNode*> readers;
  for (const ExportNode& node : graph.nodes) {
    std::vector<std::string> names;
    for (const NamedArgument& input : node.inputs) append_names(input.value, &names);
    for (std::string& name : names) readers.emplace(std::move(name), &node);
  }
  return readers;
}

// A complex tensor as pairs of reals with a last axis of two.
StoredTensor as_reals(StoredTensor tensor) {
  if (!is_complex_type(tensor.dtype)) return tensor;
  bool wide = tensor.dtype == ScalarType::kComplex128;
  tensor.dtype = wide ? ScalarType::kFloat64 : ScalarType::kFloat32;
  for (size_t k = 0; k < tensor.strides.size(); ++k) {
    tensor.strides[k] = tensor.sizes[k] > 1 ? tensor.strides[k] * 2 : 0;
  }
  tensor.storage_offset *= 2;
  tensor.sizes.push_back(2);
  tensor.strides.push_back(1);
  return tensor;
}

// Graph inputs that in-place operators write to, directly or through the aliases that models in
// practice make of them. Aliases it misses are found by translating.
std::unordered_set<std::string> likely_written(const ExportGraph& graph) {
  std::unordered_set<std::string> written;
  std::unordered_map<std::string, std::string> roots;
  for (const ExportNode& node : graph.nodes) {
    if (node.inputs.empty() || node.outputs.empty()) continue;
    auto* from = std::get_if<TensorArgument>(&node.inputs[0].value);
    auto* to = std::get_if<TensorArgument>(&node.outputs[0]);
    if (from == nullptr || to == nullptr) continue;
    std::string_view target = short_target(node);
    bool writes = is_in_place(target) && !changes_only_the_view(target);
    bool aliases = is_in_place(target) || target.starts_with("aten.to.") ||
                   target == "aten.alias.default" || target == "aten.detach.default";
    if (!aliases) continue;
    auto root = roots.find(from->name);
    const std::string& base = root == roots.end() ? from->name : root->second;
    if (writes) written.insert(base);
    roots.emplace(to->name, base);
  }
  return written;
}

class Driver {
 public:
  // `state_constants` names constants that the model writes into.
  Driver(const ExportedProgram& program, std::unordered_set<std::string> state_constants)
      : program_(program),
        state_constants_(std::move(state_constants)),
        context_(&builder_, &symbols_) {
    context_.random.on_first([this] { return declare_random_state(); });
  }

  // After run(): folded constants that were written into, and so are state.
  std::unordered_set<std::string> written_constants() const {
    std::unordered_set<std::string> out;
    for (size_t k = 0; k < folded_.size(); ++k) {
      if (context_.mutated_input(-2 - static_cast<int>(k))) out.insert(folded_[k]);
    }
    return out;
  }

  Result<Model> run() {
    Status status;
    model_.torch_version = program_.torch_version;
    model_.file = program_.file;
    status = guarded("the model's inputs", [this] { inputs(); });
    if (!status.ok()) return status.error();
    status = graph(program_.graph);
    if (!status.ok()) return status.error();
    status = guarded("the model's outputs", [this] { outputs(); });
    if (!status.ok()) return status.error();
    model_.graph = builder_.finish();
    for (int input : states_) {
      auto& declared = model_.graph.inputs[static_cast<size_t>(input)];
      if (declared.kind == common::InputKind::kWeight) declared.kind = common::InputKind::kState;
    }
    name_inputs();
    status = common::verify(model_.graph);
    if (!status.ok()) {
      return common::internal_error(cat("the translated graph is wrong: ", status.error().message));
    }
    return std::move(model_);
  }

 private:
  template <class Work>
  Status guarded(std::string_view where, Work work) {
    try {
      work();
    } catch (const Refusal& refusal) {
      return common::Error{refusal.code, cat(where, ": ", refusal.message)};
    }
    return {};
  }

  // Sizes of the inputs define the symbols, in order of appearance.
  Expr define_symbol(std::string_view name) {
    auto [place, fresh] = symbols_.emplace(std::string(name), Expr());
    if (!fresh) return place->second;
    common::SymbolRange range;
    for (const RangeConstraint& constraint : program_.ranges) {
      if (constraint.symbol != name) continue;
      range.min = constraint.min.value_or(0);
      range.max = constraint.max.value_or(INT64_MAX);
    }
    return place->second = builder_.new_symbol(range);
  }
  void define_symbols(const TensorMeta& meta) {
    for (const Extent& size : meta.sizes) {
      if (!size.is_symbolic()) continue;
      auto value = parse_sympy(size.expression, [this](std::string_view name) {
        return std::optional<Expr>(define_symbol(name));
      });
      if (!value.ok()) throw Refusal{value.error().code, value.error().message};
    }
  }

  int declare(common::InputKind kind, const std::string& name, const TensorMeta& meta) {
    define_symbols(meta);
    int position = static_cast<int>(model_.weights.size());
    NodeId value =
        builder_.input(kind, context_.ir_dtype(meta.dtype), context_.shape_of(meta), name);
    context_.define_tensor(name, value, is_complex_type(meta.dtype), position);
    positions_[name] = position;
    types_.push_back({builder_.dtype(value), builder_.shape(value)});
    model_.weights.emplace_back();
    model_.weight_names.emplace_back();
    model_.weight_sources.emplace_back();
    return position;
  }

  // Seed 0 and offset 0, until somebody sets another seed.
  NodeId declare_random_state() {
    static const common::Bytes zeros(2 * sizeof(int64_t));
    int position = static_cast<int>(model_.weights.size());
    NodeId state = builder_.input(common::InputKind::kState, DType::kInt64, {2},
                                  std::string(kRandomStateName));
    types_.push_back({DType::kInt64, {2}});
    StoredTensor stored;
    stored.dtype = ScalarType::kInt64;
    stored.sizes = {2};
    stored.strides = {1};
    stored.storage = zeros;
    model_.weights.emplace_back(std::move(stored));
    model_.weight_names.emplace_back(kRandomStateName);
    model_.weight_sources.emplace_back();
    random_state_ = position;
    return state;
  }

  void stored_input(const InputSpec& spec, const std::string& name) {
    const TensorMeta& meta = program_.graph.tensor_values.at(name);
    StoredTensor tensor = as_reals(program_.tensors.at(spec.target));
    size_t bytes = scalar_type_bytes(tensor.dtype);
    for (int64_t size : tensor.sizes) bytes *= static_cast<size_t>(size);
    bool folds = spec.kind == ExportInputKind::kTensorConstant &&
                 bytes <= common::kMaxConstantBytes && !state_constants_.contains(name);
    if (folds) {
      NodeId value = builder_.constant(context_.ir_dtype(tensor.dtype), tensor.sizes,
                                       contiguous_bytes(tensor));
      // Numbered below -1, so that a write into its memory can be found.
      context_.define_tensor(name, value, is_complex_type(meta.dtype),
                             -2 - static_cast<int>(folded_.size()));
      folded_.push_back(name);
      return;
    }
    int position = declare(common::InputKind::kWeight, name, meta);
    model_.weights[static_cast<size_t>(position)] = std::move(tensor);
    model_.weight_names[static_cast<size_t>(position)] = spec.target;
    by_target_[spec.target] = position;
  }

  void user_input(const InputSpec& spec) {
    model_.user_inputs.push_back(-1);
    model_.user_input_is_complex.push_back(false);
    if (auto* tensor = std::get_if<TensorArgument>(&spec.argument)) {
      const TensorMeta& meta = program_.graph.tensor_values.at(tensor->name);
      model_.user_inputs.back() = declare(common::InputKind::kUser, tensor->name, meta);
      model_.user_input_is_complex.back() = is_complex_type(meta.dtype);
    } else if (auto* size = std::get_if<SymIntArgument>(&spec.argument)) {
      if (size->name.empty()) return;
      // An integer input that is also a size of a tensor input is read off that tensor.
      auto value = program_.graph.sym_int_values.find(size->name);
      if (value != program_.graph.sym_int_values.end())
        sizes_.push_back({size->name, &value->second});
    }
  }

  void inputs() {
    std::unordered_set<std::string> used = used_names(program_.graph);
    for (const InputSpec& spec : program_.inputs) {
      auto* tensor = std::get_if<TensorArgument>(&spec.argument);
      switch (spec.kind) {
        case ExportInputKind::kUser:
          user_input(spec);
          break;
        case ExportInputKind::kParameter:
        case ExportInputKind::kBuffer:
        case ExportInputKind::kTensorConstant:
          if (tensor != nullptr && used.contains(tensor->name)) stored_input(spec, tensor->name);
          break;
        case ExportInputKind::kConstant:
        case ExportInputKind::kToken:  // orders side effects, which no translated operator has
          break;
        case ExportInputKind::kCustomObject:
          throw Refusal{common::Code::kUnsupported, "custom objects are not supported"};
      }
    }
    for (const auto& [name, extent] : sizes_) context_.define_size(name, context_.expr_of(*extent));
    name_sources();
    for (const ExportNode& node : program_.graph.nodes) {
      if (model_.class_name.empty()) model_.class_name = root_class(node);
    }
  }

  void name_sources() {
    for (const auto& [name, node] : first_readers(program_.graph)) {
      auto found = positions_.find(name);
      if (found == positions_.end()) continue;
      auto position = static_cast<size_t>(found->second);
      if (!model_.weight_names[position].empty()) {
        model_.weight_sources[position] = source_place(*node);
      }
    }
  }

  void name_inputs() {
    for (size_t i = 0; i < model_.graph.inputs.size(); ++i) {
      const std::string& name = model_.weight_names[i];
      if (name.empty()) continue;
      model_.graph.inputs[i].name = common::origin_text({name, model_.weight_sources[i]});
    }
  }

  // Nothing reads its results and it writes nothing: whatever it is, it can be left out.
  static bool is_dead(const ExportNode& node, const std::unordered_set<std::string>& used) {
    std::vector<std::string> names;
    for (const Argument& output : node.outputs) append_names(output, &names);
    bool read = std::any_of(names.begin(), names.end(),
                            [&used](const std::string& name) { return used.contains(name); });
    return !names.empty() && !read && written_inputs(node, short_target(node)).empty();
  }

  Status graph(const ExportGraph& graph) {
    std::unordered_set<std::string> used = used_names(graph);
    for (const ExportNode& node : graph.nodes) {
      if (auto items = foreach_nodes(node)) {
        for (const ExportNode& item : *items) {
          LFARM_RETURN_IF_ERROR(translate_node(graph, item, used));
        }
      } else if (!operator_table().knows(short_target(node)) && has_nested_graph(node)) {
        auto inner = [this](const ExportGraph& nested) { return this->graph(nested); };
        LFARM_RETURN_IF_ERROR(translate_nested(context_, graph, node, inner));
      } else {
        LFARM_RETURN_IF_ERROR(translate_node(graph, node, used));
      }
    }
    return {};
  }

  Status translate_node(const ExportGraph& graph, const ExportNode& node,
                        const std::unordered_set<std::string>& used) {
    context_.begin(graph, node);
    try {
      std::optional<Context::Value> before = value_before(node);
      bool complex = touches_complex(graph, node);
      if (!operator_table().translate(context_, short_target(node), complex)) {
        if (is_dead(node, used)) return {};
        return refusal_of(node, common::Code::kUnsupported, "");
      }
      write_back(node, std::move(before));
    } catch (const Refusal& refused) {
      if (is_dead(node, used)) return {};
      return refusal_of(node, refused.code, refused.message);
    }
    return {};
  }

  // The tensor before a node that has the same one as its first input and its output.
  std::optional<Context::Value> value_before(const ExportNode& node) const {
    if (!is_in_place(short_target(node)) || node.inputs.empty() || node.outputs.empty()) return {};
    auto* input = std::get_if<TensorArgument>(&node.inputs[0].value);
    auto* output = std::get_if<TensorArgument>(&node.outputs[0]);
    if (input == nullptr || output == nullptr || input->name != output->name) return {};
    return context_.value(input->name);
  }

  static bool touches_complex(const ExportGraph& graph, const ExportNode& node) {
    auto is_complex = [&graph](const std::string& name) {
      auto meta = graph.tensor_values.find(name);
      return meta != graph.tensor_values.end() && is_complex_type(meta->second.dtype);
    };
    auto complex = [&is_complex](const Argument& argument) {
      if (auto* tensor = std::get_if<TensorArgument>(&argument)) return is_complex(tensor->name);
      auto* list = std::get_if<TensorListArgument>(&argument);
      return list != nullptr && std::any_of(list->names.begin(), list->names.end(), is_complex);
    };
    for (const NamedArgument& input : node.inputs) {
      if (complex(input.value)) return true;
    }
    return !node.outputs.empty() && complex(node.outputs[0]);
  }

  // An operator that writes is its pure form, written back into the argument.
  void write_back(const ExportNode& node, std::optional<Context::Value> before) {
    if (before) {
      const std::string& name = std::get<TensorArgument>(node.outputs[0]).name;
      NodeId content = context_.read(name);
      context_.define_value(name, std::move(*before));
      return context_.mutate(node.inputs[0].name, content);
    }
    std::vector<size_t> inputs = written_inputs(node, short_target(node));
    for (size_t k = 0; k < inputs.size(); ++k) {
      const NamedArgument& input = node.inputs[inputs[k]];
      auto* written = std::get_if<TensorArgument>(&input.value);
      auto* result = std::get_if<TensorArgument>(&node.outputs[k]);
      if (written == nullptr || result == nullptr) continue;
      if (changes_only_the_view(short_target(node))) {
        context_.define_value(written->name, context_.value(result->name));
        continue;
      }
      NodeId content = context_.read(result->name);
      if (content != context_.read(written->name)) context_.mutate(input.name, content);
      context_.define_value(result->name, context_.value(written->name));
    }
  }

  // Only where a user input itself is sorted; other values' ties are not followed.
  std::optional<UnstableOrder> unstable_order(NodeId value) const {
    const common::Node& sort = builder_.node(value);
    if (sort.op != common::Op::kSort || !context_.is_unstable(value)) return std::nullopt;
    const common::Node& keys = builder_.node(sort.operands[0]);
    if (keys.op != common::Op::kInput) return std::nullopt;
    int position = common::attr<common::InputAttr>(keys).position;
    const std::vector<int>& inputs = model_.user_inputs;
    auto found = std::find(inputs.begin(), inputs.end(), position);
    if (found == inputs.end()) return std::nullopt;
    return UnstableOrder{static_cast<size_t>(found - inputs.begin()),
                         common::attr<common::SortAttr>(sort).axis};
  }

  void user_output(const Argument& argument, const std::string& gradient_of) {
    UserOutput out;
    out.gradient_of = gradient_of;
    std::optional<NodeId> value;
    if (auto* tensor = std::get_if<TensorArgument>(&argument)) {
      value = context_.read(tensor->name);
      out.complex = context_.name_is_complex(tensor->name);
    } else if (auto* size = std::get_if<SymIntArgument>(&argument)) {
      Expr number = size->name.empty() ? Expr(size->value) : context_.read_size(size->name);
      value = builder_.size_scalar(DType::kInt64, number);
    } else if (auto* integer = std::get_if<int64_t>(&argument)) {
      value = builder_.scalar_int(DType::kInt64, *integer);
    } else if (auto* number = std::get_if<double>(&argument)) {
      value = builder_.scalar(DType::kFloat64, *number);
    } else if (auto* truth = std::get_if<bool>(&argument)) {
      value = builder_.scalar_int(DType::kBool, *truth);
    } else if (!std::holds_alternative<NoneArgument>(argument)) {
      throw Refusal{common::Code::kUnsupported, "the model returns something that is no tensor"};
    }
    if (value) {
      out.order = unstable_order(*value);
      out.graph_output = outputs_++;
      builder_.output(*value);
    }
    model_.user_outputs.push_back(out);
  }

  void check_state(int input, NodeId value) const {
    const auto& [type, shape] = types_[static_cast<size_t>(input)];
    if (builder_.dtype(value) != type || builder_.shape(value) != shape) {
      throw Refusal{common::Code::kCorrupt, "what the model writes does not fit what it replaces"};
    }
  }

  void outputs() {
    std::unordered_map<int, NodeId> written;
    for (size_t i = 0; i < model_.weights.size(); ++i) {
      int input = static_cast<int>(i);
      if (auto value = context_.mutated_input(input)) written[input] = *value;
    }
    for (const OutputSpec& spec : program_.outputs) {
      const auto* tensor = std::get_if<TensorArgument>(&spec.argument);
      switch (spec.kind) {
        case ExportOutputKind::kUser:
        case ExportOutputKind::kLoss:
          user_output(spec.argument, "");
          break;
        case ExportOutputKind::kGradient:
          user_output(spec.argument, spec.target);
          break;
        case ExportOutputKind::kBufferMutation:
        case ExportOutputKind::kParameterMutation: {
          auto found = by_target_.find(spec.target);
          if (tensor != nullptr && found != by_target_.end()) {
            written[found->second] = context_.read(tensor->name);
          }
          break;
        }
        case ExportOutputKind::kUserInputMutation: {
          auto found = positions_.find(spec.target);
          if (tensor != nullptr && found != positions_.end()) {
            written[found->second] = context_.read(tensor->name);
          }
          break;
        }
        case ExportOutputKind::kToken:
          break;
      }
    }
    if (auto after = context_.random.state_after(builder_)) written[random_state_] = *after;
    for (size_t i = 0; i < model_.weights.size(); ++i) {
      auto found = written.find(static_cast<int>(i));
      if (found == written.end()) continue;
      check_state(found->first, found->second);
      builder_.mutate(found->first, found->second);
      ++outputs_;
      states_.push_back(found->first);
    }
    check_outputs();
  }

  void check_outputs() {
    for (const RangeChecks::Check& check : context_.checks()) {
      bool is_user =
          check.input >= 0 && model_.weight_names[static_cast<size_t>(check.input)].empty();
      int input = is_user ? check.input : -1;
      int output = outputs_++;
      builder_.check(input, check.value, check.range.limit, check.range.wraps);
      model_.check_sources[output] = check.source;
    }
  }

  const ExportedProgram& program_;
  std::unordered_set<std::string> state_constants_;
  Builder builder_;
  std::unordered_map<std::string, Expr> symbols_;
  Context context_;
  Model model_;
  std::vector<std::pair<DType, Shape>> types_;  // of the graph's inputs
  std::unordered_map<std::string, int> positions_;
  std::unordered_map<std::string, int> by_target_;
  std::vector<std::string> folded_;
  std::vector<std::pair<std::string, const Extent*>> sizes_;
  std::vector<int> states_;
  int random_state_ = -1;
  int outputs_ = 0;
};

}  // namespace

Result<Model> translate(const ExportedProgram& program) {
  std::unordered_set<std::string> state = likely_written(program.graph);
  Driver first(program, state);
  auto model = one_line(first.run());
  if (!model.ok()) return model;
  std::unordered_set<std::string> missed = first.written_constants();
  if (missed.empty()) return model;
  state.insert(missed.begin(), missed.end());
  return one_line(Driver(program, std::move(state)).run());
}

Result<Model> load_model(const std::string& path) {
  const std::optional<FileIdentity> before = file_identity(path);
  LFARM_ASSIGN_OR_RETURN(ExportedProgram program, open_pt2(path));
  auto model = translate(program);
  if (!model.ok()) {
    return common::Error{model.error().code, cat(path, ": ", model.error().message)};
  }
  if (before == file_identity(path)) model->identity = before;
  return model;
}

}  // namespace clients
