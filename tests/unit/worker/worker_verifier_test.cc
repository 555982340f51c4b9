// The worker's verifier: if these fail, wrong states pass, weights are made again for each case, or
// a candidate waits for references beyond its time.
#include <gtest/gtest.h>

#include <memory>

#include "common/ir/hlir/builder.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/whole_run.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "worker/profile/verifier.h"

namespace worker {
namespace {

using common::DType;
using common::InputKind;

// A model with a state: the child must set it anew for every case.
TEST(Verifier, StatesAndMutatedInputsAreCompared) {
  common::GraphBuilder g;
  auto x = g.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  auto state = g.input(InputKind::kState, DType::kFloat32, {4}, "state");
  g.mutate(1, g.binary(common::BinaryOp::kAdd, state, x));
  g.mutate(0, g.binary(common::BinaryOp::kMul, x, x));
  g.output(g.binary(common::BinaryOp::kSub, state, x));
  common::Graph graph = g.finish();

  auto verdict_of = [&](const char* update) {
    common::Bytes object = common::compile_object(
        common::cat("#define F(k) ((float*)b[k])\nKERNEL(all) { for (int i = 0; i < 4; ++i) {"
                    " float x = F(0)[i], s = F(1)[i]; F(2)[i] = ",
                    update, "; F(3)[i] = x * x; F(4)[i] = s - x; } }"));
    common::PlanMaker m;
    int in = m.input({4}), old = m.input({4}, InputKind::kState);
    int fresh = m.mutate(1, {4}), square = m.mutate(0, {4}), out = m.output({4});
    m.call(m.kernel("all"), {in, old}, {fresh, square, out});
    common::Plan plan = m.finish(object);
    plan.key.target = common::host_cpu_target();
    EXPECT_TRUE(common::plan_fits(plan, graph).ok());
    auto device = common::make_cpu_device();
    auto executor =
        common::Executor::load(plan,
                               [&](const common::Digest&) -> common::Result<common::ByteView> {
                                 return common::ByteView(object);
                               },
                               *device, {true});
    EXPECT_TRUE(executor.ok());
    Verifier judge(1 << 20);
    return judge.verify(common::digest_of("graph"), graph, **executor, {});
  };
  auto good = verdict_of("s + x");
  EXPECT_TRUE(good.ok()) << good.error().message;
  auto bad = verdict_of("s");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, common::Code::kVerification);
}

// All cases have the same weights: what calls at load make of them is made once, and a candidate
// that it comes out wrong for, the second time, is not found wrong.
TEST(Verifier, WeightsAreBoundOnceForAllCases) {
  common::GraphBuilder g;
  auto x = g.input(InputKind::kUser, DType::kFloat32, {4}, "x");
  auto w = g.input(InputKind::kWeight, DType::kFloat32, {4}, "w");
  g.output(g.binary(common::BinaryOp::kMul, x, g.binary(common::BinaryOp::kAdd, w, w)));
  common::Graph graph = g.finish();
  common::Bytes object = common::compile_object(
      "#define F(k) ((float*)b[k])\nstatic int loads;\n"
      "KERNEL(load) { ++loads; for (int i = 0; i < 4; ++i) F(1)[i] = 2 * loads * F(0)[i]; }\n"
      "KERNEL(mul) { for (int i = 0; i < 4; ++i) F(2)[i] = F(0)[i] * F(1)[i]; }");
  common::PlanMaker m;
  int in = m.input({4}), weight = m.input({4}, InputKind::kWeight);
  int twice = m.temporary({4}), out = m.output({4});
  m.call(m.kernel("load"), {weight}, {twice});
  m.call(m.kernel("mul"), {in, twice}, {out});
  common::Plan plan = m.finish(object);
  plan.key.target = common::host_cpu_target();
  auto device = common::make_cpu_device();
  auto load = [&](bool guard) {
    return common::Executor::load(plan,
                                  [&](const common::Digest&) -> common::Result<common::ByteView> {
                                    return common::ByteView(object);
                                  },
                                  *device, {guard})
        .value();
  };
  Verifier judge(1);  // byte, so that of all cases the last one is kept
  common::Digest digest = common::digest_of("graph");
  auto guarded = load(true);
  auto verdict = judge.verify(digest, graph, *guarded, {});
  EXPECT_TRUE(verdict.ok()) << verdict.error().message;
  guarded.reset();
  auto executor = load(false);
  const auto inputs = judge.inputs_at(digest, graph, {}, {}).value();
  ASSERT_TRUE(common::bind_inputs(*executor, inputs).ok());
  common::Status same = judge.check_first_case(digest, graph, *executor, {}, inputs);
  EXPECT_TRUE(same.ok()) << same.error().message;
  // Bound again, it is: the test can tell.
  ASSERT_TRUE(common::bind_inputs(*executor, inputs).ok());
  EXPECT_FALSE(judge.check_first_case(digest, graph, *executor, {}, inputs).ok());
}

// The graph out = x * w of `elements` elements, with an executor of its plan.
class JudgedProduct {
 public:
  JudgedProduct(common::Device& device, Verifier& judge, int64_t elements)
      : judge_(judge), digest_(common::digest_of(common::cat("product of ", elements))) {
    common::GraphBuilder g;
    auto x = g.input(InputKind::kUser, DType::kFloat32, {elements}, "x");
    auto w = g.input(InputKind::kWeight, DType::kFloat32, {elements}, "w");
    g.output(g.binary(common::BinaryOp::kMul, x, w));
    graph_ = g.finish();
    object_ = common::compile_object(
        common::cat("#define F(k) ((float*)b[k])\nKERNEL(mul) { for (int i = 0; i < ", elements,
                    "; ++i) F(2)[i] = F(0)[i] * F(1)[i]; }"));
    common::PlanMaker m;
    int in = m.input({elements}), weight = m.input({elements}, InputKind::kWeight);
    int out = m.output({elements});
    m.call(m.kernel("mul"), {in, weight}, {out});
    common::Plan plan = m.finish(object_);
    plan.key.target = common::host_cpu_target();
    auto source = [&](const common::Digest&) -> common::Result<common::ByteView> {
      return common::ByteView(object_);
    };
    executor_ = common::Executor::load(plan, source, device, {.guard = true}).value();
  }
  void verify() {
    auto verdict = judge_.verify(digest_, graph_, *executor_, {});
    EXPECT_TRUE(verdict.ok()) << verdict.error().message;
  }
  common::HostTensor weight() { return judge_.inputs_at(digest_, graph_, {}, {}).value()[1]; }

 private:
  Verifier& judge_;
  common::Digest digest_;
  common::Graph graph_;
  common::Bytes object_;
  std::unique_ptr<common::Executor> executor_;
};

TEST(Verifier, AModelStaysWhileItsRegionsAreJudged) {
  auto device = common::make_cpu_device();
  Verifier judge(1);  // byte
  JudgedProduct whole(*device, judge, 64'000), region(*device, judge, 1'000);
  JudgedProduct other(*device, judge, 32'000);
  whole.verify();
  common::HostTensor first = whole.weight();  // keeps its memory, so that no other has the address
  region.verify();
  EXPECT_EQ(whole.weight().data(), first.data());
  other.verify();
  EXPECT_NE(whole.weight().data(), first.data());
}

// Of a large graph a candidate is judged on few inputs, and a finalist on all.
TEST(Verifier, CandidatesDoNotWaitForAllReferencesOfALargeGraph) {
  constexpr int64_t kElements = 1 << 20;  // whose inputs and references take some milliseconds
  common::GraphBuilder g;
  auto x = g.input(InputKind::kUser, DType::kFloat32, {kElements}, "x");
  g.output(g.unary(common::UnaryOp::kNeg, g.unary(common::UnaryOp::kAbs, x)));
  common::Graph graph = g.finish();
  common::Bytes object =
      common::compile_object(common::cat("#include <math.h>\n#define F(k) ((float*)b[k])\n"
                                         "KERNEL(all) { for (int i = 0; i < ",
                                         kElements, "; ++i) F(1)[i] = -fabsf(F(0)[i]); }"));
  common::PlanMaker m;
  int in = m.input({kElements}), out = m.output({kElements});
  m.call(m.kernel("all"), {in}, {out});
  common::Plan plan = m.finish(object);
  plan.key.target = common::host_cpu_target();
  auto device = common::make_cpu_device();
  auto executor =
      common::Executor::load(plan,
                             [&](const common::Digest&) -> common::Result<common::ByteView> {
                               return common::ByteView(object);
                             },
                             *device, {true});
  ASSERT_TRUE(executor.ok());
  constexpr size_t kKept = size_t{1} << 30;
  auto cases_within = [&](Verifier& judge, uint32_t references_ms) {
    int runs = 0;
    judge.set_observer([&](bool runs_now) { runs += runs_now ? 1 : 0; });
    common::VerifyOptions options;
    options.references_ms = references_ms;
    auto verdict = judge.verify(common::digest_of("graph"), graph, **executor, options);
    EXPECT_TRUE(verdict.ok()) << verdict.error().message;
    return runs;
  };
  Verifier judge(kKept);
  int first = cases_within(judge, 1), second = cases_within(judge, 1);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2) << "what is known is verified, and one case more";
  EXPECT_EQ(cases_within(judge, 0), 6);
}

}  // namespace
}  // namespace worker
