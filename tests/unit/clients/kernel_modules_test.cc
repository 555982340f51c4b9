// Which modules a plan's kernels serve: if these fail, people look for a slow kernel in the wrong
// layer of their model.
#include "clients/cli/plans/kernel_modules.h"

#include <gtest/gtest.h>

namespace clients {
namespace {

using common::BufferKind;
using common::InputKind;

// Weights of two layers and of the model itself, and what the caller gives.
Model model_of_layers() {
  Model model;
  model.weight_names = {"layers.0.up.weight", "layers.1.up.weight", "scale", ""};
  model.weight_sources = {"model.py:12", "model.py:12", "model.py:20", ""};
  return model;
}

common::Plan plan_of_layers() {
  common::Plan plan;
  for (InputKind kind :
       {InputKind::kWeight, InputKind::kWeight, InputKind::kWeight, InputKind::kUser}) {
    int position = static_cast<int>(plan.inputs.size());
    plan.inputs.push_back({kind, common::DType::kFloat32, {4}, ""});
    plan.buffers.push_back({BufferKind::kInput, position, common::DType::kFloat32, {4}});
  }
  for (int k = 0; k < 3; ++k) {
    plan.buffers.push_back({BufferKind::kTemporary, k, common::DType::kFloat32, {4}});
  }
  plan.kernels.resize(4);
  return plan;
}

TEST(KernelModules, AreThoseOfTheWeightsThatAllCallsRead) {
  common::Plan plan = plan_of_layers();
  plan.calls = {
      {0, {3, 0}, {4}, {}}, {0, {4, 1}, {5}, {}}, {1, {5, 2, 1}, {6}, {}}, {2, {6}, {4}, {}}};
  std::vector<KernelOrigin> origins = kernel_origins(plan, model_of_layers());
  ASSERT_EQ(origins.size(), 4u);
  EXPECT_EQ(origins[0].modules, "layers.*.up");
  EXPECT_EQ(origins[1].modules, "layers.1.up, scale");
  EXPECT_EQ(origins[0].sources, "model.py:12");
  EXPECT_EQ(origins[1].sources, "model.py:12, model.py:20");
  EXPECT_EQ(origins[2].modules, "") << "what kernels give each other is of no module";
  EXPECT_EQ(origins[3].modules, "") << "it is never called";
}

TEST(KernelModules, OfPreparedWeightsAreThoseTheyWereMadeOf) {
  common::Plan plan = plan_of_layers();
  plan.calls = {{0, {0}, {4}, {}}, {1, {3, 4}, {5}, {}}, {2, {5}, {6}, {}}};
  std::vector<KernelOrigin> origins = kernel_origins(plan, model_of_layers());
  EXPECT_EQ(origins[0].modules, "layers.0.up");
  EXPECT_EQ(origins[1].modules, "layers.0.up");
  EXPECT_EQ(origins[2].modules, "");
}

}  // namespace
}  // namespace clients
