// How the outputs of a case are held against what is expected.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "clients/cli/models/case.h"
#include "common/base/files.h"
#include "tests/paths/paths.h"

namespace clients {
namespace {

using common::DType;
using common::HostTensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Tolerance kTolerance{0.01, 0.001};

HostTensor floats(std::vector<int64_t> sizes, std::vector<double> values) {
  HostTensor tensor = HostTensor::zeros(DType::kFloat32, std::move(sizes)).value();
  for (size_t i = 0; i < values.size(); ++i) tensor.set(static_cast<int64_t>(i), values[i]);
  return tensor;
}
HostTensor integers(std::vector<int64_t> values) {
  HostTensor tensor =
      HostTensor::zeros(DType::kInt64, {static_cast<int64_t>(values.size())}).value();
  for (size_t i = 0; i < values.size(); ++i) tensor.set_int(static_cast<int64_t>(i), values[i]);
  return tensor;
}
bool same(double actual, double expected) {
  return !difference(floats({1}, {actual}), floats({1}, {expected}), kTolerance).has_value();
}

TEST(CaseDifference, AllowsWhatTheToleranceAllows) {
  EXPECT_TRUE(same(100.0, 100.0));
  EXPECT_TRUE(same(100.9, 100.0));   // within 1 + 0.001
  EXPECT_FALSE(same(101.1, 100.0));  // beyond
  EXPECT_TRUE(same(0.0005, 0.0));
  EXPECT_FALSE(same(0.002, 0.0));
  // Relative to what is expected, not to what came.
  EXPECT_TRUE(same(-99.1, -100.0));
  EXPECT_FALSE(same(100.0, -100.0));
}

TEST(CaseDifference, TreatsNanAsEqualAndInfinityExactly) {
  EXPECT_TRUE(same(NAN, NAN));
  EXPECT_FALSE(same(NAN, 1));
  EXPECT_FALSE(same(1, NAN));
  EXPECT_TRUE(same(kInfinity, kInfinity));
  EXPECT_FALSE(same(kInfinity, -kInfinity));
  EXPECT_FALSE(same(kInfinity, 1e30));
  EXPECT_FALSE(same(1e30, kInfinity));
}

TEST(CaseDifference, IsExactForIntegers) {
  EXPECT_FALSE(difference(integers({1, 2}), integers({1, 2}), kTolerance).has_value());
  EXPECT_TRUE(difference(integers({1000, 2}), integers({1001, 2}), kTolerance).has_value());
  // Beyond what a double tells apart.
  int64_t large = int64_t{1} << 53;
  EXPECT_TRUE(difference(integers({large}), integers({large + 1}), kTolerance).has_value());
}

TEST(CaseDifference, SaysWhereAndHowMuch) {
  auto what = difference(floats({2, 2}, {1, 2, 3, 9}), floats({2, 2}, {1, 2, 4, 4}), kTolerance);
  ASSERT_TRUE(what.has_value());
  EXPECT_EQ(*what, "2 of 4 elements differ, most at [1, 1]: 9, expected 4");
  auto nan = difference(floats({2}, {5, NAN}), floats({2}, {1, 2}), kTolerance);
  ASSERT_TRUE(nan.has_value());
  EXPECT_EQ(nan->find("2 of 2 elements differ, most at [1]"), 0u) << *nan;
}

TEST(CaseDifference, ComparesTypes) {
  auto shape = difference(floats({2}, {1, 2}), floats({2, 1}, {1, 2}), kTolerance);
  ASSERT_TRUE(shape.has_value());
  EXPECT_EQ(*shape, "is f32[2], expected f32[2, 1]");
  EXPECT_TRUE(difference(integers({1}), floats({1}, {1}), kTolerance).has_value());
}

TEST(CaseDifference, LeavesTheOrderOfEqualKeysOpen) {
  HostTensor keys = floats({4}, {1, 0, 1, NAN});
  HostTensor expected = integers({1, 0, 2, 3});
  EXPECT_FALSE(order_difference(integers({1, 0, 2, 3}), expected, keys, 0).has_value());
  EXPECT_FALSE(order_difference(integers({1, 2, 0, 3}), expected, keys, 0).has_value());
  EXPECT_TRUE(order_difference(integers({0, 1, 2, 3}), expected, keys, 0).has_value());
  EXPECT_TRUE(order_difference(integers({1, 0, 0, 3}), expected, keys, 0).has_value()) << "twice";
  EXPECT_TRUE(order_difference(integers({1, 0, 4, 3}), expected, keys, 0).has_value()) << "beyond";
  // Along the first of two axes, each column has an order of its own.
  HostTensor columns = floats({2, 2}, {5, 1, 5, 2});
  HostTensor order = integers({0, 0, 1, 1}).reshaped({2, 2}).value();
  HostTensor turned = integers({1, 0, 0, 1}).reshaped({2, 2}).value();
  EXPECT_FALSE(order_difference(turned, order, columns, 0).has_value());
  HostTensor wrong = integers({0, 1, 1, 0}).reshaped({2, 2}).value();
  EXPECT_TRUE(order_difference(wrong, order, columns, 0).has_value());
}

TEST(CaseLines, ReadAsDocumented) {
  EXPECT_EQ(line_of({"mlp", Verdict::kPass, "", 0}), "PASS mlp");
  EXPECT_EQ(line_of({"mlp", Verdict::kFail, "output 0: off", 0}), "FAIL mlp: output 0: off");
  EXPECT_EQ(line_of({"fft", Verdict::kUnsupported, "aten._fft_c2c.default", 0}),
            "UNSUPPORTED fft: aten._fft_c2c.default");
  EXPECT_EQ(case_name("/a/b/mlp"), "mlp");
  EXPECT_EQ(case_name("mlp/"), "mlp");
}

TEST(RunCase, SaysWhatIsWrongWithAFolder) {
  CaseResult result = run_case("/nonexistent/case", [](const std::shared_ptr<const Model>&) {
    return common::Result<InstanceFactory>(common::internal_error("not reached"));
  });
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_NE(result.detail.find("/nonexistent/case/meta.json"), std::string::npos) << result.detail;
  EXPECT_EQ(result.detail.find('\n'), std::string::npos);
}

InstanceMaker reference() {
  return [](const std::shared_ptr<const Model>& model) -> common::Result<InstanceFactory> {
    return InstanceFactory([model]() -> common::Result<std::unique_ptr<Instance>> {
      return make_reference_instance(model);
    });
  };
}

TEST(RunCase, KeepsStateBetweenStepsAndNotBetweenSizes) {
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) {
    CaseResult result = run_case(paths::fixtures("/models/") + name, reference());
    EXPECT_EQ(line_of(result), std::string("PASS ") + name);
  }
}

// A model that writes to no input and gives one output, and a case that expects more of it.
TEST(RunCase, WhatTheModelDoesNotGiveIsMissed) {
  struct Expectation {
    const char *from, *to, *missed;
  };
  for (auto [from, to, missed] : {Expectation{"inputs/0.npy", "after", "input 0 is not written to"},
                                  Expectation{"outputs/0.npy", "outputs", "gives 1 outputs"}}) {
    auto scratch = common::ScratchDirectory::create("npy_case");
    ASSERT_TRUE(scratch.ok());
    const std::filesystem::path folder = scratch->path() + "/mlp";
    std::filesystem::copy(paths::fixtures("/models/mlp"), folder,
                          std::filesystem::copy_options::recursive);
    std::filesystem::create_directories(folder / to);
    const char* name = std::filesystem::exists(folder / to / "0.npy") ? "1.npy" : "0.npy";
    std::filesystem::copy(folder / from, folder / to / name);
    CaseResult result = run_case(folder, reference());
    EXPECT_EQ(result.verdict, Verdict::kFail);
    EXPECT_NE(result.detail.find(missed), std::string::npos) << result.detail;
  }
}

}  // namespace
}  // namespace clients
