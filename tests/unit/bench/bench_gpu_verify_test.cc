// Plans of cut models on the emulated GPU: if these fail, `lfarm-bench gpu-verify` proves nothing
// of full-width models, or a decode step's plan computes something else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/verify.h"
#include "coordinator/search/passes/passes.h"
#include "tests/bench/gpu_static/predicted_device.h"
#include "tests/bench/gpu_verify/first_layers.h"
#include "tests/bench/gpu_verify/gpu_plans.h"
#include "tests/bench/gpu_verify/kernel_programs.h"
#include "tests/bench/gpu_verify/verified_cases.h"
#include "tests/unit/bench/small_decode.h"
#include "worker/compile/nvrtc_child.h"

namespace bench {
namespace {

using common::Graph;
using testing::SmallDecode;

const CaseChoice kEnds{{{"len*", {0, 5, SmallDecode::kPositions - 1}}}, 1};

common::Program plain_program(const Graph& graph, const common::Target& target) {
  coordinator::Compilation compilation(graph, target, coordinator::Numerics::kStrict);
  return coordinator::default_program(compilation);
}

TEST(FirstLayers, AreTheModelOfSoManyLayers) {
  auto cut = first_layers(SmallDecode(5).finish(), 2);
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  ASSERT_TRUE(common::verify(*cut).ok()) << common::verify(*cut).error().message;
  EXPECT_EQ(common::graph_hash(*cut), common::graph_hash(SmallDecode(2).finish()));
}

TEST(FirstLayers, AModelOfFewerStaysWhole) {
  Graph graph = SmallDecode(3).finish();
  auto cut = first_layers(graph, 8);
  ASSERT_TRUE(cut.ok()) << cut.error().message;
  EXPECT_EQ(common::graph_hash(*cut), common::graph_hash(graph));
}

TEST(FirstLayers, AnOutputOfALaterLayerIsRefused) {
  common::GraphBuilder b;
  auto kFloat = common::DType::kFloat32;
  common::NodeId x = b.input(common::InputKind::kUser, kFloat, {4, 8}, "x");
  for (int k = 0; k < 4; ++k) {
    x = b.matmul(x, b.input(common::InputKind::kWeight, kFloat, {8, 8}, "w"));
    x = b.unary(common::UnaryOp::kTanh, x);
    b.output(x);
  }
  Graph graph = b.finish();
  EXPECT_EQ(first_layers(graph, 2).error().code, common::Code::kUnsupported);
}

TEST(VerifiedCases, ValuesOutsideOfTheirUseAndUnknownNamesAreRefused) {
  Graph graph = SmallDecode(1).finish();
  auto outside = VerifiedCases::make(graph, {{{"length", {SmallDecode::kPositions}}}, 1});
  ASSERT_FALSE(outside.ok());
  EXPECT_NE(outside.error().message.find("0 to 63, not 64"), std::string::npos)
      << outside.error().message;
  auto unknown = VerifiedCases::make(graph, {{{"position", {0}}}, 1});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("there are: ids length"), std::string::npos)
      << unknown.error().message;
}

class GpuVerify : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = GpuPlans::open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    plans_ = std::move(*opened);
    auto cut = first_layers(SmallDecode(4).finish(), 2);
    ASSERT_TRUE(cut.ok()) << cut.error().message;
    graph_ = std::move(*cut);
    auto made = VerifiedCases::make(graph_, kEnds);
    ASSERT_TRUE(made.ok()) << made.error().message;
    cases_ = std::move(*made);
  }
  // Of each case, whether the program passes.
  std::vector<bool> verdicts(common::Program program) {
    auto executor = plans_->load(std::move(program));
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    std::vector<bool> passed;
    for (size_t k = 0; executor.ok() && k < cases_->size(); ++k) {
      auto errors = cases_->judge(**executor, k);
      EXPECT_TRUE(errors.ok() || errors.error().code == common::Code::kVerification)
          << errors.error().message;
      passed.push_back(errors.ok());
    }
    return passed;
  }

  std::unique_ptr<GpuPlans> plans_;
  Graph graph_;
  std::optional<VerifiedCases> cases_;
};

TEST_F(GpuVerify, ThePlainProgramIsRightAtBothEndsOfTheCache) {
  EXPECT_EQ(verdicts(plain_program(graph_, plans_->target())), std::vector<bool>(3, true));
}

TEST_F(GpuVerify, AFoundProgramIsRightAtBothEndsOfTheCache) {
  auto program = predicted_search(graph_, plans_->target(), {3});
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ(verdicts(std::move(*program)), std::vector<bool>(3, true));
}

// The scores do not matter where one position is seen.
TEST_F(GpuVerify, AnotherModelsProgramIsFoundOut) {
  Graph other = SmallDecode(2, 0.5).finish();
  EXPECT_EQ(verdicts(plain_program(other, plans_->target())),
            (std::vector<bool>{true, false, false}));
}

// A kernel whose scores have another scale fails alone, and no other kernel does.
TEST_F(GpuVerify, AKernelIsJudgedByItsOwnOutput) {
  const common::Target& target = plans_->target();
  std::vector<KernelProgram> right = kernel_programs(plain_program(graph_, target));
  std::vector<KernelProgram> other =
      kernel_programs(plain_program(SmallDecode(2, 0.3).finish(), target));
  ASSERT_EQ(right.size(), other.size());
  int wrong = 0;
  for (size_t k = 0; k < right.size(); ++k) {
    bool is_same = common::graph_hash(right[k].graph) == common::graph_hash(other[k].graph);
    auto cases = VerifiedCases::make(right[k].graph, {});
    ASSERT_TRUE(cases.ok()) << cases.error().message;
    for (auto& [program, expected] :
         {std::pair{&right[k].program, true}, std::pair{&other[k].program, is_same}}) {
      auto executor = plans_->load(*program);
      ASSERT_TRUE(executor.ok()) << executor.error().message;
      auto errors = cases->judge(**executor, 0);
      EXPECT_EQ(errors.ok(), expected) << (errors.ok() ? "" : errors.error().message);
    }
    wrong += is_same ? 0 : 1;
  }
  EXPECT_GE(wrong, 1);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], worker::kNvrtcChildFlag) == 0) {
    return worker::run_nvrtc_child(STDIN_FILENO);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
