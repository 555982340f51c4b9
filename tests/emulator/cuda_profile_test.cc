// Candidates that misbehave on the emulated GPU, and what the worker makes of it. This binary is
// its own executor child.
#include <gtest/gtest.h>

#include "common/cuda/nvrtc.h"
#include "common/runtime/device/cuda_device.h"
#include "tests/unit/worker/profile_testing.h"

namespace worker {
namespace {

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

class CudaProfileTest : public ProfileFixture {
 protected:
  static void SetUpTestSuite() {
    auto nvrtc = common::Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    cubin = new common::Bytes(std::move(compiled->cubin));
  }
  static void TearDownTestSuite() { delete cubin; }

  CudaProfileTest() : ProfileFixture(2, common::SandboxProfile::kDevice) {}

  // A good call, then the one in question.
  ProfileRequest request(const char* entry) {
    common::PlanMaker m;
    m.plan.symbols = {{1, 4096}};
    Expr n = Expr::symbol(0);
    int x = m.input({n}), w = m.input({n}, InputKind::kWeight);
    int middle = m.temporary({n}), out = m.output({n});
    int good = m.kernel("good", n), last = m.kernel(entry, n);
    m.call(good, {x, w}, {middle}, {n});
    m.call(last, {middle, w}, {out}, {n});
    for (common::PlanKernel& kernel : m.plan.kernels) kernel.entry.block = {32, 32, 0};
    ProfileRequest result =
        request_for(m.finish(*cubin), *cubin, common::find_cuda_target().value());
    result.measure.time_max_ms = 2000;
    return result;
  }
  using ProfileFixture::run;
  ProfileReply run(const char* entry, int candidate_ms = 600'000) {
    return run(request(entry), candidate_ms);
  }
  void expect_healthy() {
    ProfileReply reply = run("good");
    EXPECT_EQ(reply.outcome, TaskOutcome::kOk) << reply.message;
  }

  static common::Bytes* cubin;
};
common::Bytes* CudaProfileTest::cubin = nullptr;

TEST_F(CudaProfileTest, GoodCandidatesAreMeasured) { expect_measured(request("good"), 2); }

// The driver takes more addresses than machines have memory; a bound on them would be a device that
// does not open.
TEST_F(CudaProfileTest, WhatCanBeWrittenToIsBoundedNotAddresses) {
  expect_healthy();
  EXPECT_EQ(child_limit("Max address space"), "unlimited");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::string written = child_limit("Max data size");
  EXPECT_EQ(written.find_first_not_of("0123456789"), std::string::npos) << written;
#endif
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
  return worker::run_tests_or_executor(
      argc, argv, {"cuda", [](int) { return common::open_cuda_device(); }, true});
}
