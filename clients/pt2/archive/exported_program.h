// What a torch.export archive says about a model, as plain structs without JSON or symbols.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "clients/pt2/archive/scalar_type.h"
#include "common/base/bytes.h"
#include "common/base/files.h"
#include "common/base/result.h"

namespace clients {

// Nested graphs of higher-order operators, and tensor ranks, that are read.
inline constexpr int kMaxGraphDepth = 16;
inline constexpr size_t kMaxRank = 64;
// Elements a weight may have; zero strides let an archive claim any number of them.
inline constexpr int64_t kMaxWeightElements = int64_t{1} << 40;

// One size, stride or offset of a tensor, or the value of a symbolic integer.
struct Extent {
  int64_t value = 0;            // when `expression` is empty
  std::string expression;       // sympy text, such as "Mul(Integer(2), Symbol('s21', ...))" or "s0"
  std::optional<int64_t> hint;  // the expression's value when the model was exported
  bool is_symbolic() const { return !expression.empty(); }
};

struct TensorMeta {
  ScalarType dtype = ScalarType::kUnknown;
  std::vector<Extent> sizes;
  std::vector<Extent> strides;
  Extent storage_offset;
};

// Arguments of a node. A name refers to a value of the graph.
struct NoneArgument {};
struct TensorArgument {
  std::string name;
};
struct TensorListArgument {
  std::vector<std::string> names;  // empty: None in this place
};
struct SymIntArgument {
  std::string name;  // empty: `value`
  int64_t value = 0;
};
struct SymFloatArgument {
  std::string name;  // empty: `value`
  double value = 0;
};
struct SymBoolArgument {
  std::string name;  // empty: `value`
  bool value = false;
};
struct LayoutArgument {
  int64_t layout = 0;
};
struct MemoryFormatArgument {
  int64_t format = 0;
};
struct DeviceArgument {
  std::string type;
};
struct ComplexArgument {
  double real = 0;
  double imaginary = 0;
};
struct CustomObjectArgument {
  std::string name;
  std::string class_name;
};
struct OperatorArgument {
  std::string name;
};
// A kind of argument that this reader doesn't know; an error only where somebody needs it.
struct UnknownArgument {
  std::string kind;
};
struct ExportGraph;
struct GraphArgument {
  std::string name;
  std::shared_ptr<const ExportGraph> graph;
};

using Argument =
    std::variant<NoneArgument, TensorArgument, TensorListArgument, int64_t, std::vector<int64_t>,
                 double, std::vector<double>, bool, std::vector<bool>, std::string,
                 std::vector<std::string>, SymIntArgument, std::vector<SymIntArgument>,
                 SymFloatArgument, std::vector<SymFloatArgument>, SymBoolArgument,
                 std::vector<SymBoolArgument>, ScalarType, LayoutArgument, MemoryFormatArgument,
                 DeviceArgument, ComplexArgument, GraphArgument, CustomObjectArgument,
                 OperatorArgument, UnknownArgument>;

struct NamedArgument {
  std::string name;
  Argument value;
};

struct ExportNode {
  std::string target;  // "torch.ops.aten.add.Tensor"
  std::string name;    // empty in archives of torch 2.6
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string stack_trace;   // outermost frame first, as Python prints it; may be empty
  std::string module_stack;  // "path,name,class" of each enclosing module, separated by ';'
};

// Nodes are in an order of execution: each uses only graph inputs and earlier outputs.
struct ExportGraph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<ExportNode> nodes;
  std::unordered_map<std::string, TensorMeta> tensor_values;
  std::unordered_map<std::string, Extent> sym_int_values;
};

enum class ExportInputKind {
  kParameter,
  kBuffer,
  kTensorConstant,
  kCustomObject,
  kToken,
  kConstant,  // a value that is not a tensor, fixed when the model was exported
  kUser,
};

// What graph input i is.
struct InputSpec {
  ExportInputKind kind = ExportInputKind::kUser;
  Argument argument;       // the graph input it describes
  std::string target;      // name of the parameter, buffer or constant in the module
  bool persistent = true;  // buffers only
};

enum class ExportOutputKind {
  kUser,
  kLoss,
  kBufferMutation,
  kParameterMutation,
  kUserInputMutation,
  kGradient,
  kToken,
};

// What graph output i is.
struct OutputSpec {
  ExportOutputKind kind = ExportOutputKind::kUser;
  Argument argument;
  // What it replaces, or what it is the gradient of: a parameter's or buffer's name in the module,
  // or a graph input's name.
  std::string target;
};

struct RangeConstraint {
  std::string symbol;
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

// A tensor of the archive: a strided view of a storage that other tensors may share.
struct StoredTensor {
  ScalarType dtype = ScalarType::kUnknown;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;  // in elements
  common::ByteView storage;    // the whole storage, little-endian; usually inside the mapped file
  std::shared_ptr<const void> owner;  // keeps `storage` alive
};

struct ExportedProgram {
  ExportGraph graph;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<RangeConstraint> ranges;
  int64_t schema_major = 0;
  int64_t schema_minor = 0;
  std::string torch_version;
  // Parameters, buffers and constants by their names in the module.
  std::unordered_map<std::string, StoredTensor> tensors;
  std::shared_ptr<const common::MappedFile> file;  // where they lie; null: in memory of the caller
};

// kCorrupt unless every element that sizes, strides and offset reach lies inside the storage.
common::Status check_stored_tensor(const StoredTensor& tensor, std::string_view name);

// kCorrupt unless the signature fits the graph and every name used was defined before, at every
// depth. The parser runs it.
common::Status check_program(const ExportedProgram& program);

// Appends the names of the tensors and sizes that an argument is made of.
void append_names(const Argument& argument, std::vector<std::string>* names);

// The source line a node came from, innermost frame of the model's own code first, for messages:
// "model.py:92 in forward: return softmax(x)". Empty when the archive doesn't say.
std::string source_line(const ExportNode& node);
// "aten.gather.default (node 'gather') at model.py:92 in forward: return x.gather(0, i)"
std::string operator_text(const ExportNode& node);
// The operator's name without "torch.ops.".
std::string_view short_target(const ExportNode& node);

}  // namespace clients
