// Candidates that misbehave on the emulated GPU, and what the worker makes of it. This binary is
// its own executor child.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "common/cuda/nvrtc.h"
#include "common/ir/builder.h"
#include "common/runtime/cuda_device.h"
#include "common/wire/ir_codec.h"
#include "tests/unit/runtime_testing.h"
#include "worker/profile/executor_child.h"
#include "worker/profile/executor_client.h"

namespace worker {
namespace {

using common::DType;
using common::Expr;
using common::InputKind;
using common::TaskOutcome;

// Each computes out = x + w over s0 elements, or fails to.
constexpr const char* kKernels = R"(
#ifndef LF_EMULATED
typedef long int64_t;
#endif
#define OPERANDS const float* x, const float* w, float* out, int64_t s0, int64_t units, \
    char* scratch, int64_t scratch_stride
#define I ((int64_t)blockIdx.x * 32 + threadIdx.x)
extern "C" __global__ void good(OPERANDS) { if (I < s0) out[I] = x[I] + w[I]; }
extern "C" __global__ void wrong(OPERANDS) { if (I < s0) out[I] = x[I] - w[I]; }
extern "C" __global__ void unwritten(OPERANDS) { }
extern "C" __global__ void past_end(OPERANDS) { if (I < s0) out[I] = x[I] + w[I]; if (I == 0) out[s0 + 3] = 1; }
extern "C" __global__ void writes_input(OPERANDS) { if (I < s0) out[I] = x[I] + w[I]; if (I == 0) ((float*)w)[0] += 1; }
extern "C" __global__ void wild(OPERANDS) { if (I < s0) out[I] = x[I] + w[I]; if (I == 0) *(float*)16 = 1; }
extern "C" __global__ void spins(OPERANDS) { if (I < s0) out[I] = x[I] + w[I]; while (*(volatile float*)out == out[0]) { } }
)";

common::Graph sum_graph() {
  common::GraphBuilder g({{1, 4096}});
  Expr n = Expr::symbol(0);
  auto x = g.input(InputKind::kUser, DType::kFloat32, {n}, "x");
  auto w = g.input(InputKind::kWeight, DType::kFloat32, {n}, "w");
  g.output(g.binary(common::BinaryOp::kAdd, g.binary(common::BinaryOp::kAdd, x, w), w));
  return g.finish();
}

class CudaProfileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto nvrtc = common::Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    cubin = new common::Bytes(std::move(compiled->cubin));
  }
  static void TearDownTestSuite() { delete cubin; }

  CudaProfileTest() : graph_bytes_(common::encode_graph(sum_graph())) {}

  // A good call, then the one in question.
  ProfileReply run(const char* entry, int candidate_ms = 20'000) {
    common::PlanMaker m;
    m.plan.symbols = {{1, 4096}};
    Expr n = Expr::symbol(0);
    int x = m.input({n}), w = m.input({n}, InputKind::kWeight);
    int middle = m.temporary({n}), out = m.output({n});
    int good = m.kernel("good", n), last = m.kernel(entry, n);
    m.call(good, {x, w}, {middle}, {n});
    m.call(last, {middle, w}, {out}, {n});
    for (common::PlanKernel& kernel : m.plan.kernels) kernel.entry.block = {32, 32, 0};
    ProfileRequest request;
    request.graph = common::digest_of(graph_bytes_);
    request.plan = m.finish(*cubin);
    request.plan.key.target = common::find_cuda_target().value();
    request.objects = {{common::digest_of(*cubin), *cubin}};
    request.verify.sizes = {{37}, {1}};
    request.measure.repetitions = 3;
    request.measure.time_max_ms = 2000;
    ProfileLimits limits;
    limits.candidate_ms = candidate_ms;
    return client_.run(request, graph_bytes_, limits);
  }
  void expect_healthy() {
    ProfileReply reply = run("good");
    EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  }

  static common::Bytes* cubin;
  common::Bytes graph_bytes_;
  ExecutorClient client_{{"/proc/self/exe", "--executor"}};
};
common::Bytes* CudaProfileTest::cubin = nullptr;

TEST_F(CudaProfileTest, GoodCandidatesAreMeasured) {
  ProfileReply reply = run("good");
  ASSERT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  EXPECT_GE(reply.runs, 3u);
  EXPECT_EQ(reply.call_ns.size(), 2u);
  pid_t child = client_.child_pid();
  expect_healthy();
  EXPECT_EQ(client_.child_pid(), child) << "a healthy child was replaced";
}

TEST_F(CudaProfileTest, WrongOutputsAreFound) {
  for (const char* entry : {"wrong", "unwritten", "past_end", "writes_input"}) {
    EXPECT_EQ(run(entry).outcome, TaskOutcome::kWrong) << entry;
  }
  expect_healthy();
}

// The driver tells of a fault at some later call; who launches several wants to know which.
TEST_F(CudaProfileTest, AFaultIsChargedToItsKernel) {
  ProfileReply reply = run("wild");
  EXPECT_EQ(reply.outcome, TaskOutcome::kCrash);
  EXPECT_NE(reply.message.find("call 1 (wild, "), std::string::npos) << reply.message;
  EXPECT_NE(reply.message.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << reply.message;
  expect_healthy();
}

TEST_F(CudaProfileTest, AKernelThatDoesNotEndIsAHang) {
  EXPECT_EQ(run("spins", 500).outcome, TaskOutcome::kHang);
  expect_healthy();
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--executor") == 0) {
    worker::ExecutorDevice device{"cuda", [](int) { return common::open_cuda_device(); }, true};
    return worker::run_executor_child(STDIN_FILENO, device);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
