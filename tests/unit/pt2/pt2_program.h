// Small programs written out node by node, and what the interpreter makes of them: what a test of
// the translator needs when no saved model shows the case.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "clients/pt2/translate.h"
#include "common/runtime/interpreter/interpreter.h"

namespace pt2_test {

using clients::ExportedProgram;
using clients::ExportInputKind;
using clients::ExportNode;
using clients::ExportOutputKind;
using clients::Extent;
using clients::NamedArgument;
using clients::ScalarType;
using clients::SymBoolArgument;
using clients::SymIntArgument;
using clients::TensorArgument;
using clients::TensorMeta;
using common::DType;
using common::HostTensor;

// Builds programs over float32 tensors, node by node.
class Program {
 public:
  Program& tensor(const std::string& name, std::vector<int64_t> sizes,
                  ScalarType type = ScalarType::kFloat32) {
    TensorMeta meta;
    meta.dtype = type;
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) {
      meta.strides.insert(meta.strides.begin(), Extent{stride, "", {}});
    }
    for (int64_t size : sizes) meta.sizes.push_back({size, "", {}});
    program_.graph.tensor_values[name] = meta;
    return *this;
  }
  Program& input(const std::string& name, std::vector<int64_t> sizes,
                 ScalarType type = ScalarType::kFloat32) {
    tensor(name, std::move(sizes), type);
    program_.graph.inputs.push_back(TensorArgument{name});
    program_.inputs.push_back({ExportInputKind::kUser, TensorArgument{name}, "", true});
    return *this;
  }
  Program& stored(ExportInputKind kind, const std::string& name, std::vector<float> values) {
    auto count = static_cast<int64_t>(values.size());
    input(name, {count});
    program_.inputs.back() = {kind, TensorArgument{name}, name, true};
    auto owner = std::make_shared<std::vector<float>>(std::move(values));
    common::ByteView bytes{reinterpret_cast<const std::byte*>(owner->data()), owner->size() * 4};
    program_.tensors[name] = {ScalarType::kFloat32, {count}, {1}, 0, bytes, owner};
    return *this;
  }
  Program& node(const std::string& target, std::vector<NamedArgument> inputs,
                const std::string& output) {
    ExportNode node;
    node.target = "torch.ops." + target;
    node.name = output;
    node.stack_trace = "File \"/models/net.py\", line 12, in forward\n    return self.f(x)";
    node.inputs = std::move(inputs);
    node.outputs.push_back(TensorArgument{output});
    program_.graph.nodes.push_back(std::move(node));
    return *this;
  }
  Program& number(const std::string& target, const std::string& from, const std::string& name) {
    node(target, {{"self", TensorArgument{from}}}, name);
    program_.graph.nodes.back().outputs = {SymIntArgument{name, 0}};
    return *this;
  }
  // Of the node before.
  Program& second_output(const std::string& name) {
    program_.graph.nodes.back().outputs.push_back(TensorArgument{name});
    return *this;
  }
  // A number that only the data knows against one that is known.
  Program& comparison(const std::string& target, const std::string& left, int64_t right,
                      const std::string& name) {
    node("", {{"a", SymIntArgument{left, 0}}, {"b", right}}, name);
    program_.graph.nodes.back().target = target;
    program_.graph.nodes.back().outputs = {SymBoolArgument{name, false}};
    return *this;
  }
  Program& output(const std::string& name) {
    program_.graph.outputs.push_back(TensorArgument{name});
    program_.outputs.push_back({ExportOutputKind::kUser, TensorArgument{name}, ""});
    return *this;
  }
  const ExportedProgram& get() const { return program_; }

 private:
  ExportedProgram program_;
};

inline NamedArgument self(const std::string& name) { return {"self", TensorArgument{name}}; }

inline std::vector<float> floats(const HostTensor& tensor) {
  std::vector<float> out;
  for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(static_cast<float>(tensor.get(i)));
  return out;
}

inline common::HostTensor line(std::vector<float> values, std::vector<int64_t> sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  common::ByteView bytes{reinterpret_cast<const std::byte*>(values.data()), values.size() * 4};
  return HostTensor::copy_of(DType::kFloat32, sizes, bytes).value();
}

inline std::vector<common::HostTensor> run(const clients::Model& model,
                                           const std::vector<common::HostTensor>& inputs) {
  auto out = common::interpret(model.graph, inputs, {});
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
  return out.ok() ? *out : std::vector<HostTensor>();
}

}  // namespace pt2_test
