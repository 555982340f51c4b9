#include "clients/runtime/model/index_error.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"

namespace clients {
namespace {

using common::at;
using common::cat;
using common::GraphOutput;

template <class T>
int64_t read(const common::TensorRef& tensor, int64_t position) {
  T value;
  std::memcpy(&value, tensor.data + at(position) * sizeof value, sizeof value);
  return value;
}

// Empty where the tensor's integers are not the host's to read.
std::optional<int64_t> value_at(const common::TensorRef& tensor, int64_t position) {
  auto size = static_cast<size_t>(common::dtype_size(tensor.dtype));
  if (tensor.on_device || position < 0 || at(position) >= tensor.bytes / size) return std::nullopt;
  switch (tensor.dtype) {
    case common::DType::kInt64:
      return read<int64_t>(tensor, position);
    case common::DType::kInt32:
      return read<int32_t>(tensor, position);
    case common::DType::kInt16:
      return read<int16_t>(tensor, position);
    case common::DType::kInt8:
      return read<int8_t>(tensor, position);
    case common::DType::kUint8:
      return read<uint8_t>(tensor, position);
    default:
      return std::nullopt;
  }
}

// Which of the model's user inputs a graph input is; -1 for others.
int user_of(const Model& model, int graph_input) {
  if (graph_input < 0) return -1;
  auto found = std::find(model.user_inputs.begin(), model.user_inputs.end(), graph_input);
  return found == model.user_inputs.end() ? -1
                                          : static_cast<int>(found - model.user_inputs.begin());
}

}  // namespace

common::Error index_error(const Model& model, const common::FailedCheck& failed,
                          std::span<const common::TensorRef> user_inputs) {
  const GraphOutput& output = model.graph.outputs[at(failed.output)];
  std::string where = "an index inside of the model";
  std::optional<int64_t> value;
  if (int user = user_of(model, output.input); user >= 0) {
    const std::string& name = model.graph.inputs[at(output.input)].name;
    where = cat("input ", user);
    if (!name.empty()) where += cat(" ('", name, "')");
    if (at(user) < user_inputs.size()) value = value_at(user_inputs[at(user)], failed.position);
  } else if (auto source = model.check_sources.find(failed.output);
             source != model.check_sources.end()) {
    where = source->second;
  }
  return {common::Code::kOutOfRange,
          cat(where, ": index ", value ? cat(*value, " ") : "", "at position ", failed.position,
              " is outside of [", output.wraps ? cat("-", failed.limit) : "0", ", ", failed.limit,
              ")")};
}

}  // namespace clients
