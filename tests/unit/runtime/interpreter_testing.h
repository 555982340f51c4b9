// Helpers of the interpreter's tests: tensors from lists and one-line runs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/verify.h"
#include "common/runtime/interpreter/interpreter.h"

namespace common::testing {

using Numbers = std::vector<double>;
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline HostTensor tensor(DType dtype, std::vector<int64_t> sizes, const Numbers& values) {
  HostTensor result = HostTensor::zeros(dtype, std::move(sizes)).value();
  EXPECT_EQ(result.elements(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) result.set(static_cast<int64_t>(i), values[i]);
  return result;
}
inline HostTensor integers(DType dtype, std::vector<int64_t> sizes,
                           const std::vector<int64_t>& values) {
  HostTensor result = HostTensor::zeros(dtype, std::move(sizes)).value();
  for (size_t i = 0; i < values.size(); ++i) result.set_int(static_cast<int64_t>(i), values[i]);
  return result;
}
// 0, 1, 2, ... over the sizes.
inline HostTensor counting(DType dtype, std::vector<int64_t> sizes) {
  HostTensor result = HostTensor::zeros(dtype, std::move(sizes)).value();
  for (int64_t i = 0; i < result.elements(); ++i) result.set(i, static_cast<double>(i));
  return result;
}
inline Numbers numbers(const HostTensor& tensor) {
  Numbers values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.get(i));
  return values;
}
inline Shape shape_of(const std::vector<int64_t>& sizes) {
  return Shape(sizes.begin(), sizes.end());
}

inline std::vector<HostTensor> run_graph(const Graph& graph, const std::vector<HostTensor>& inputs,
                                         Precision precision = Precision::kModel) {
  Status status = verify(graph);
  EXPECT_TRUE(status.ok()) << status.error().message;
  InterpretOptions options;
  options.precision = precision;
  auto outputs = interpret(graph, inputs, options);
  EXPECT_TRUE(outputs.ok()) << outputs.error().message;
  return outputs.ok() ? std::move(*outputs) : std::vector<HostTensor>(graph.outputs.size());
}

// Builds a graph of one output: `build` gets the builder and one node per given tensor.
template <class Build>
HostTensor compute(const std::vector<HostTensor>& inputs, Build&& build,
                   Precision precision = Precision::kModel) {
  GraphBuilder b;
  std::vector<NodeId> nodes;
  for (const HostTensor& input : inputs) {
    nodes.push_back(b.input(InputKind::kUser, input.dtype(), shape_of(input.sizes()), "x"));
  }
  b.output(build(b, nodes));
  return run_graph(b.finish(), inputs, precision)[0];
}

inline void expect_numbers(const HostTensor& got, const Numbers& expected, double tolerance = 0) {
  ASSERT_EQ(got.elements(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    double x = got.get(static_cast<int64_t>(i));
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(x)) << "element " << i << " is " << x;
    } else if (std::isinf(expected[i])) {
      EXPECT_EQ(x, expected[i]) << "element " << i;
    } else {
      EXPECT_NEAR(x, expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
          << "element " << i;
    }
  }
}

}  // namespace common::testing
