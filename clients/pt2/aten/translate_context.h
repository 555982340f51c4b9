// What an operator's translator works with: the node's arguments, the builder, and its results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "clients/pt2/archive/exported_program.h"
#include "clients/pt2/aten/checked_builder.h"
#include "clients/pt2/aten/random_draws.h"
#include "clients/pt2/aten/range_checks.h"

namespace clients {

// A Python number among the arguments.
struct Scalar {
  enum class Kind { kBool, kInt, kFloat };
  Kind kind = Kind::kInt;
  Expr integer;          // of kBool and kInt; not constant for a size
  double number = 0;     // of kFloat
  double value() const;  // refuses a size that isn't constant
};

// The name of a symbolic number; null for other arguments and for constants.
const std::string* number_name(const Argument& argument);

// Which part of complex arguments a translator for real tensors sees. A real argument is its own
// real part; indices and masks are the same in every part.
enum class Part { kWhole, kReal, kImaginary, kZero };

// The values of one graph while it is translated, and the node that is being translated.
//
// Tensors that share memory in PyTorch share a storage here: an operator that writes into one of
// them changes what the others read afterwards, and the results stay pure values. Complex tensors
// are float32 or float64 with a last axis of two, as view_as_real shows them.
class Context {
 public:
  Context(Builder* builder, std::unordered_map<std::string, Expr>* symbols);

  Builder& b;
  RandomDraws random;

  // Arguments of the current node, by the names of their ATen schema. "self" and "input" both name
  // the first argument where the schema has no argument of that name. Those without a default
  // refuse a missing argument.
  bool has(std::string_view name) const;  // given and not None
  bool is_tensor(std::string_view name) const;
  bool is_tensor_list(std::string_view name) const;
  NodeId tensor(std::string_view name);
  // Also takes complex tensors, with their last axis of two.
  NodeId any_tensor(std::string_view name);
  std::optional<NodeId> optional_tensor(std::string_view name);
  std::vector<NodeId> tensors(std::string_view name);
  std::vector<std::optional<NodeId>> optional_tensors(std::string_view name);
  bool is_complex(std::string_view name) const;
  int64_t integer(std::string_view name);
  int64_t integer(std::string_view name, int64_t fallback);
  Expr size(std::string_view name);
  Expr size(std::string_view name, const Expr& fallback);
  std::vector<int64_t> integers(std::string_view name);
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback);
  std::vector<Expr> sizes(std::string_view name);
  // Null when the argument is no list of floats.
  const std::vector<double>* floats(std::string_view name) const;
  double number(std::string_view name, double fallback);
  // One number or a list of them, of any kind.
  std::vector<double> numbers(std::string_view name);
  bool flag(std::string_view name, bool fallback);
  bool is_text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback);
  Scalar scalar(std::string_view name);
  std::optional<ComplexArgument> complex_number(std::string_view name) const;
  // The value of a number argument that only the data knows (from item()), as a scalar tensor.
  std::optional<NodeId> data_number(std::string_view name);
  std::optional<DType> dtype(std::string_view name);
  // How the archive says that a tensor argument lies in memory.
  const TensorMeta& layout(std::string_view name) const;
  // Counted from the front; refuses an axis outside [-rank, rank). A scalar has the one axis 0.
  int axis(std::string_view name, int rank);
  int axis(std::string_view name, int rank, int64_t fallback);
  // In the order given; refuses an axis that isn't there.
  std::vector<int> ordered_axes(std::string_view name, int rank);
  // Sorted and distinct; every axis when the argument is missing, None or empty.
  std::vector<int> axes(std::string_view name, int rank);

  // What the archive says about the node's results, flattened over lists.
  size_t output_count() const { return outputs_.size(); }
  bool wants_output(size_t k) const { return k < outputs_.size() && !outputs_[k].empty(); }
  DType out_dtype(size_t k = 0) const;
  // Of a complex result: with the last axis of two.
  Sizes out_shape(size_t k = 0) const;
  // One size of it; refuses an axis that isn't there.
  Expr out_size(int axis, size_t k = 0) const;
  // False while parts are read.
  bool out_is_complex(size_t k = 0) const;

  // Results. `set` refuses a value whose dtype or shape is not what the archive says; `result`
  // casts to that dtype first, which is the one rounding of the operator.
  void set(NodeId value, size_t k = 0);
  void result(NodeId value, size_t k = 0);
  void set_complex(NodeId value, size_t k = 0);
  void set_size(const Expr& value);
  // The result is the size that the archive says; false when it doesn't say.
  bool set_size_as_exported();
  // The result is a number that only the data knows.
  void set_data_number(NodeId value);
  // Result k is a view of the tensor argument's memory.
  void alias(std::string_view name, const View& view, size_t k = 0);
  // Result k is the argument itself.
  void alias(std::string_view name, size_t k = 0);
  // Result k, set as an alias, becomes a copy that later writes don't reach.
  void unshare(size_t k = 0);
  // Writes new content, cast and broadcast to the argument's type, into the tensor argument and
  // every tensor that shares its memory.
  void mutate(std::string_view name, NodeId content);
  // Into item k of a list of tensors.
  void mutate_item(std::string_view name, size_t k, NodeId content);

  // Until it is called again, arguments are read by their parts: those named in `parts` as it
  // says (a list's item k as "name[k]"), others as `others`. Numbers that are a value, not a
  // factor, are zero outside of the real part. Results are collected, not set; the collected ones
  // of the part before are returned. kWhole ends it.
  using Parts = std::vector<std::pair<std::string_view, Part>>;
  std::vector<std::optional<NodeId>> read_parts(Part others, Parts parts = {});

  // Inside of torch.vmap, tensors have leading axes, one for each level around, that the model's
  // operators don't see. Elementwise operators read arguments with their levels, and their own
  // axes as many as the result's, and give results with every level.
  void enter_vmap(const Expr& size) { vmap_.levels.push_back(size); }
  void leave_vmap();
  size_t vmap_levels() const { return vmap_.levels.size(); }
  // The axis `dim` of a tensor argument becomes the innermost level, or that level an axis again.
  void add_level(const std::string& value, int64_t dim);
  void remove_level(const std::string& value, int64_t dim);
  // A tensor argument with every level in full, and its own axes as they are.
  NodeId every_level(std::string_view name);
  // A tensor argument that must have no level; the node's other arguments keep the axes they have.
  NodeId without_levels(std::string_view name);

  // The positions come from a sort that may order equal elements as it likes.
  void note_unstable(NodeId order) { unstable_.insert(order); }
  bool is_unstable(NodeId value) const { return unstable_.contains(value); }

  // Indices that the model's author gave, and not ones that a translator computes: a run reports
  // those that PyTorch refuses.
  void check_index(NodeId index, const IndexRange& range);
  // Between these two, whatever is computed may not count: nothing is checked.
  void begin_branches() { ++branches_; }
  void end_branches() { --branches_; }
  const std::vector<RangeChecks::Check>& checks() const { return checks_.checks(); }

  [[noreturn]] void refuse(std::string_view why) const;

  // For the driver.
  const ExportNode* node = nullptr;
  void begin(const ExportGraph& graph, const ExportNode& node);
  // Makes a value known under a name; `input` is its position among the graph's inputs, or -1.
  void define_tensor(const std::string& name, NodeId value, bool complex, int input);
  void define_size(const std::string& name, const Expr& value);
  NodeId read(const std::string& name);
  Expr read_size(const std::string& name) const;
  bool name_is_complex(const std::string& name) const;
  bool knows(const std::string& name) const { return values_.contains(name); }
  // The content of a graph input at the end; empty when nothing wrote into it.
  std::optional<NodeId> mutated_input(int input) const;
  DType ir_dtype(ScalarType type) const;
  Expr expr_of(const Extent& extent) const;
  Shape shape_of(const TensorMeta& meta) const;
  // A nested graph's values live in a scope of their own.
  struct Tensor {
    int storage = 0;
    std::vector<View> chain;  // from the storage to this tensor
    NodeId node = 0;          // its value when the storage had `version`
    int version = 0;
    bool complex = false;
    int levels = 0;  // leading axes that only vmap sees
  };
  using Value = std::variant<Tensor, Expr>;
  using Scope = std::unordered_map<std::string, Value>;
  Scope take_scope() { return std::move(values_); }
  void restore_scope(Scope scope) { values_ = std::move(scope); }
  const Value& value(const std::string& name) const;
  NodeId read_value(Value value);
  // Defines a name as one value or the other, as the argument `condition` of the node is.
  void choose(std::string_view condition, const std::string& name, Value yes, Value no);
  void define_value(const std::string& name, Value value) { values_[name] = std::move(value); }

 private:
  // What torch.vmap has around the node.
  struct Vmap {
    std::vector<Expr> levels;
    bool unaligned = false;  // the node's arguments keep the axes they have
  };
  struct Storage {
    NodeId current = 0;
    int version = 0;
    int input = -1;
  };
  // See read_parts().
  struct Reading {
    Part others = Part::kWhole;
    Parts parts = {};
    std::vector<std::optional<NodeId>> results = {};
  };
  const NamedArgument* find_given(std::string_view name) const;
  const Argument* find(std::string_view name) const;
  const Argument& need(std::string_view name) const;
  const std::string& tensor_name(std::string_view name) const;
  const TensorMeta& meta(size_t k) const;
  const Tensor& tensor_value(const std::string& name) const;
  NodeId read(Tensor* tensor);
  Part part_of(std::string_view name) const;
  NodeId read_part(const std::string& value, Part part);
  NodeId with_levels(const std::string& value, size_t levels);
  NodeId read_in_vmap(const std::string& value);
  void set_in_vmap(NodeId value, size_t k);
  NodeId fit(NodeId value, size_t k, bool complex) const;
  int add_storage(NodeId value, int input);
  void write_into(const std::string& value, NodeId content);

  std::unordered_map<std::string, Expr>* symbols_;
  mutable std::unordered_map<std::string, Expr> expressions_;
  const ExportGraph* graph_ = nullptr;
  std::vector<std::string> outputs_;
  Scope values_;
  std::vector<Storage> storages_;
  std::unordered_set<NodeId> unstable_;
  RangeChecks checks_;
  int branches_ = 0;
  Vmap vmap_;
  Reading reading_;
};

}  // namespace clients
