// Turns an exported PyTorch program into an HLIR graph with its weights bound by position.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/pt2/archive/exported_program.h"
#include "clients/pt2/archive/file_identity.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"

namespace clients {

// The state of a model that draws random numbers: int64 [2], seed and offset of a Philox stream as
// PyTorch's CUDA generator has them.
inline constexpr std::string_view kRandomStateName = "lfarm.random_state";

// Positions that sort a user input along an axis, from a sort that PyTorch calls unstable: of equal
// elements any may come first, and which one does differs between its own devices.
struct UnstableOrder {
  size_t user_input = 0;
  int axis = 0;
};

// One value the model returns.
struct UserOutput {
  int graph_output = -1;  // position among the graph's outputs; -1: None
  bool complex = false;   // the last axis holds real and imaginary parts
  std::optional<UnstableOrder> order;
  // Of a gradient: the parameter's name in the module, "layers.0.weight", or the user input's.
  std::string gradient_of = {};
};

struct Model {
  common::Graph graph;
  // For each graph input its stored tensor (a weight, or a state's first content), in the graph
  // input's dtype and shape; empty for user inputs.
  std::vector<std::optional<StoredTensor>> weights;
  // For each graph input its tensor's name in the module, "layers.0.weight"; empty for user inputs.
  std::vector<std::string> weight_names;
  // For each graph input the line of the model's source that reads it first, "model.py:92"; empty
  // for user inputs, and where nobody knows. Of a model that is known by its hash there are none.
  std::vector<std::string> weight_sources;
  // For each user input its graph input; -1 when the model does not read it (None, a constant).
  std::vector<int> user_inputs;
  // For each user input: complex numbers, which the graph takes with a last axis of two.
  std::vector<bool> user_input_is_complex;
  std::vector<UserOutput> user_outputs;
  // For each kCheck output of the graph, by its position: the operator that takes the indices.
  std::map<int, std::string> check_sources;
  std::string torch_version;
  std::string class_name;                          // of the module that was exported; may be empty
  std::shared_ptr<const common::MappedFile> file;  // that weights lie in; may be null
  std::optional<FileIdentity> identity;            // of it, where it did not change meanwhile
  // Of a model that is known by its hash: such a graph has inputs and outputs, but no nodes.
  std::optional<common::Digest> graph_hash;
};

// kUnsupported names the operator, its node and its line in the model's source.
common::Result<Model> translate(const ExportedProgram& program);

// open_pt2 and translate.
common::Result<Model> load_model(const std::string& path);

// True when the tensor's elements lie in row-major order without gaps in its storage.
bool is_contiguous(const StoredTensor& tensor);
// The elements in row-major order, copied.
common::Bytes contiguous_bytes(const StoredTensor& tensor);
// The elements of a contiguous tensor, as a view of its storage.
common::ByteView contiguous_view(const StoredTensor& tensor);

}  // namespace clients
