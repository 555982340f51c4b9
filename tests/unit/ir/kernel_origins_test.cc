// Which modules a plan's kernels serve: if these fail, people look for a slow kernel in the wrong
// layer of their model.
#include "common/plan/kernel_origins.h"

#include <gtest/gtest.h>

#include "common/text/tensor_origin.h"

namespace common {
namespace {

// Weights of two layers and of the model itself, and what the caller gives.
std::vector<GraphInput> named_inputs() {
  std::vector<GraphInput> inputs;
  for (const char* name : {"layers.0.up.weight at model.py:12", "layers.1.up.weight at model.py:12",
                           "scale at model.py:20"}) {
    inputs.push_back({InputKind::kWeight, DType::kFloat32, {4}, name});
  }
  inputs.push_back({InputKind::kUser, DType::kFloat32, {4}, "x"});
  return inputs;
}

Plan plan_of_layers() {
  Plan plan;
  for (InputKind kind :
       {InputKind::kWeight, InputKind::kWeight, InputKind::kWeight, InputKind::kUser}) {
    int position = static_cast<int>(plan.inputs.size());
    plan.inputs.push_back({kind, DType::kFloat32, {4}, ""});
    plan.buffers.push_back({BufferKind::kInput, position, DType::kFloat32, {4}});
  }
  for (int k = 0; k < 3; ++k) {
    plan.buffers.push_back({BufferKind::kTemporary, k, DType::kFloat32, {4}});
  }
  plan.kernels.resize(4);
  return plan;
}

TEST(KernelOrigins, AreThoseOfTheWeightsThatAllCallsRead) {
  Plan plan = plan_of_layers();
  plan.calls = {
      {0, {3, 0}, {4}, {}}, {0, {4, 1}, {5}, {}}, {1, {5, 2, 1}, {6}, {}}, {2, {6}, {4}, {}}};
  std::vector<KernelOrigin> origins = kernel_origins(plan, named_inputs());
  ASSERT_EQ(origins.size(), 4u);
  EXPECT_EQ(origins[0].modules, "layers.*.up");
  EXPECT_EQ(origins[1].modules, "layers.1.up, scale");
  EXPECT_EQ(origins[0].sources, "model.py:12");
  EXPECT_EQ(origins[1].sources, "model.py:12, model.py:20");
  EXPECT_EQ(origins[2].modules, "") << "what kernels give each other is of no module";
  EXPECT_EQ(origins[3].modules, "") << "it is never called";
}

TEST(KernelOrigins, OfPreparedWeightsAreThoseTheyWereMadeOf) {
  Plan plan = plan_of_layers();
  plan.calls = {{0, {0}, {4}, {}}, {1, {3, 4}, {5}, {}}, {2, {5}, {6}, {}}};
  std::vector<KernelOrigin> origins = kernel_origins(plan, named_inputs());
  EXPECT_EQ(origins[0].modules, "layers.0.up");
  EXPECT_EQ(origins[1].modules, "layers.0.up");
  EXPECT_EQ(origins[2].modules, "");
}

// What farms get of clients that do not name weights.
TEST(KernelOrigins, OfInputsWithoutNamesAreEmpty) {
  Plan plan = plan_of_layers();
  plan.calls = {{0, {3, 0}, {4}, {}}};
  std::vector<GraphInput> nameless = named_inputs();
  for (GraphInput& input : nameless) input.name.clear();
  EXPECT_EQ(kernel_origins(plan, nameless)[0], KernelOrigin());
  EXPECT_EQ(kernel_origins(plan, {})[0], KernelOrigin());
}

TEST(TensorOrigin, IsReadFromItsText) {
  for (const TensorOrigin& origin :
       {TensorOrigin{"layers.0.up.weight", "model.py:12"}, TensorOrigin{"scale", ""},
        TensorOrigin{"what is at home", "a b.py:1"}, TensorOrigin{}}) {
    EXPECT_EQ(parse_origin(origin_text(origin)), origin) << origin_text(origin);
  }
}

}  // namespace
}  // namespace common
