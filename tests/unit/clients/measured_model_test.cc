// Models that are measured beside other runtimes: if these fail, plans are compared with outputs of
// other inputs.
#include "clients/cli/compare/measured_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/paths/paths.h"

namespace clients {
namespace {

std::string mlp() { return paths::fixtures("/models/mlp"); }

TEST(MeasuredModel, ACaseHasItsInputsAndOutputs) {
  auto model = open_model(mlp());
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->name, "mlp");
  auto outputs = stored_outputs(*model);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_TRUE(compare(*model, *outputs, *outputs).ok());
  auto zeros = common::HostTensor::zeros((*outputs)[0].dtype(), (*outputs)[0].sizes());
  EXPECT_EQ(compare(*model, {*zeros}, *outputs).error().code, common::Code::kVerification);
}

TEST(MeasuredModel, TheFileOfACaseAloneHasInputsMadeUpAndNoOutputs) {
  auto folder = open_model(mlp());
  auto file = open_model(mlp() + "/model.pt2");
  ASSERT_TRUE(folder.ok() && file.ok());
  ASSERT_EQ(file->inputs.size(), folder->inputs.size());
  EXPECT_EQ(file->inputs[0].sizes(), folder->inputs[0].sizes());
  EXPECT_FALSE(std::ranges::equal(file->inputs[0].bytes(), folder->inputs[0].bytes()));
  EXPECT_EQ(stored_outputs(*file).error().code, common::Code::kUnavailable);
}

}  // namespace
}  // namespace clients
