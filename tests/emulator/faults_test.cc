// What a kernel or a host may do wrong is found on the emulated GPU as on a real one, and leaves
// the device in the same state. Errors that stick are met in a process of their own.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/emulator/gpu.h"

namespace emulator {
namespace {

class Faults : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

struct Source {
  const char* text;
  const char* kernel;
};

// Launches one block and ends the process with 0 when the launch succeeds and what follows fails
// with `code`, again and again.
template <class... A>
[[noreturn]] void exit_after_fault(const Source& source, unsigned threads, int code,
                                   A... arguments) {
  Gpu gpu;
  void* kernel = gpu.kernel(source.text, source.kernel);
  const int launched = gpu.launch(kernel, 1, threads, 0, arguments...);
  const int first = gpu.synchronise(), second = gpu.synchronise();
  uint64_t address = 0;
  const int allocation = api().cuMemAlloc(&address, 4);
  const bool holds = launched == 0 && first == code && second == code && allocation == code;
  std::fprintf(stderr, "results %d %d %d %d\n", launched, first, second, allocation);
  std::_Exit(holds ? 0 : 1);
}

// That in a process of its own, which says `message`.
template <class... A>
void expect_fault(const Source& source, unsigned threads, int code, const char* message,
                  A... arguments) {
  SCOPED_TRACE(source.kernel);
  EXPECT_EXIT((exit_after_fault(source, threads, code, arguments...)), testing::ExitedWithCode(0),
              message);
}

constexpr Source kStore = {R"(
extern "C" __global__ void lf_store(float* out, int64_t at) { out[at + threadIdx.x] = 1.0f; })",
                           "lf_store"};

TEST_F(Faults, IllegalAddressIsReportedAndSticks) {
  // Fails when a kernel may write where nothing is allocated: past the end, before the start, or
  // through an address of the host.
  static float host[4];
  constexpr const char* kSaid = "lf_store.*illegal address";
  expect_fault(kStore, 1, kIllegalAddress, kSaid, Gpu().memory(4096), int64_t{1024});
  expect_fault(kStore, 1, kIllegalAddress, kSaid, Gpu().memory(4096), int64_t{-1});
  expect_fault(kStore, 1, kIllegalAddress, kSaid, &host[0], int64_t{0});
}

TEST_F(Faults, FreedMemoryIsIllegal) {
  // Fails when a kernel may use memory after cuMemFree.
  Gpu gpu;
  const uint64_t address = gpu.memory(64);
  const uint64_t other = gpu.memory(64);
  gpu.check(api().cuMemFree(address));
  gpu.check(api().cuMemFree(other));
  expect_fault(kStore, 1, kIllegalAddress, "illegal address", address, int64_t{0});
}

TEST_F(Faults, MisalignedVectorsAreReported) {
  // Fails when 16 bytes may be read at an address that is no multiple of 16: the host's processor
  // would do it.
  expect_fault({R"(
extern "C" __global__ void lf_wide(float* out, int64_t at) {
  const float4 x = *reinterpret_cast<const float4*>(out + at);
  out[0] = x.x + x.w;
})",
                "lf_wide"},
               1, kMisalignedAddress, "test.cu:3: misaligned address", Gpu().memory(256),
               int64_t{1});
}

TEST_F(Faults, ArrayBoundsAreReported) {
  // Fails when an index may leave an array in shared memory or registers.
  expect_fault({R"(
extern "C" __global__ void lf_outside(float* out, int64_t at) {
  __shared__ float tile[32];
  tile[threadIdx.x + at] = 1.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
})",
                "lf_outside"},
               32, kIllegalAddress, "thread \\(31,0,0\\).*test.cu:4: index out of the bounds",
               Gpu().memory(256), int64_t{1});
}

TEST_F(Faults, DivergentBarriersAreReported) {
  // Fails when halves of a block may wait at different barriers.
  expect_fault({R"(
extern "C" __global__ void lf_split(float* out) {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
    out[threadIdx.x] = 1.0f;
  }
})",
                "lf_split"},
               64, kLaunchFailed, "lf_split.*barrier of line 4.*barrier of line 6",
               Gpu().memory(256));
}

TEST_F(Faults, DeadlockIsReported) {
  // Fails when a kernel whose threads wait for one another hangs instead: some lanes of a warp at a
  // shuffle, others at a barrier.
  expect_fault({R"(
extern "C" __global__ void lf_stuck(float* out) {
  float x = threadIdx.x;
  if (threadIdx.x % 2 == 0) x = __shfl_xor_sync(0xffffffffu, x, 2);
  __syncthreads();
  out[threadIdx.x] = x;
})",
                "lf_stuck"},
               32, kLaunchFailed,
               "deadlock: threads wait at the barrier of line 5, for their warp at line 4",
               Gpu().memory(256));
}

TEST_F(Faults, LanesAtDifferentOperationsAreReported) {
  // Fails when lanes may exchange with lanes that are at another shuffle.
  expect_fault({R"(
extern "C" __global__ void lf_mixed(float* out) {
  float x = threadIdx.x;
  if (threadIdx.x < 8) {
    x = __shfl_xor_sync(0xffffffffu, x, 1);
  } else {
    x = __shfl_xor_sync(0xffffffffu, x, 2);
  }
  out[threadIdx.x] = x;
})",
                "lf_mixed"},
               32, kLaunchFailed, "different operations: line 5 and line 7", Gpu().memory(256));
}

TEST_F(Faults, StackOverflowAndDivisionAreReported) {
  // Fails when a kernel's fault that is no memory access takes the process with it.
  expect_fault({R"(
extern "C" __global__ void lf_divide(int* out, int by) { out[0] = 7 / by; })",
                "lf_divide"},
               1, kLaunchFailed, "lf_divide.*division", Gpu().memory(256), 0);
  expect_fault({R"(
static __device__ __noinline__ int lf_deep(volatile int* p, int n) {
  volatile int frame[1024];
  frame[n % 1024] = n;
  return n == 0 ? *p : lf_deep(p, n - 1) + frame[n % 1024];
}
extern "C" __global__ void lf_overflow(int* out) { out[0] = lf_deep(out, 1000000); })",
                "lf_overflow"},
               1, kIllegalAddress, "lf_overflow.*stack overflow", Gpu().memory(256));
}

TEST_F(Faults, FaultsOfTheHostAreNotTheKernels) {
  // Fails when host code may follow a device address after it has waited, or the emulator takes the
  // host's faults for its own and from the handler that was there before.
  EXPECT_EXIT(
      {
        std::signal(SIGSEGV, [](int) { std::_Exit(5); });
        Gpu gpu;
        const uint64_t address = gpu.upload(std::vector<int>{1, 2, 3});
        void* kernel = gpu.kernel(kStore.text, kStore.kernel);
        gpu.check(gpu.launch(kernel, 1, 1, 0, address, int64_t{0}));
        gpu.check(gpu.synchronise());
        volatile int* there = reinterpret_cast<int*>(address);  // NOLINT(performance-no-int-to-ptr)
        std::_Exit(*there == 2 ? 3 : 4);
      },
      testing::ExitedWithCode(5), "");
}

TEST_F(Faults, WithoutAContextNothingWorks) {
  // Fails when a thread that never made the context current may use the device.
  EXPECT_EXIT(
      {
        uint64_t address = 0;
        const int before = api().cuMemAlloc(&address, 4);
        api().cuInit(0);
        const int without = api().cuMemAlloc(&address, 4);
        std::_Exit(before == kNotInitialized && without == kInvalidContext ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Faults, BadLaunchesAndImagesAreRefused) {
  // Fails when the driver takes what a real one refuses at the call; nothing sticks.
  Gpu gpu;
  void* bounded = gpu.kernel(R"(
extern "C" __global__ void __launch_bounds__(64) lf_bounded(int* out) { out[threadIdx.x] = 1; })",
                             "lf_bounded");
  const uint64_t out = gpu.memory(1024);
  EXPECT_EQ(gpu.launch(bounded, 1, 65, 0, out), kInvalidValue);
  EXPECT_EQ(gpu.launch(bounded, 0, 64, 0, out), kInvalidValue);
  EXPECT_EQ(gpu.launch(bounded, 1, 0, 0, out), kInvalidValue);
  void *module = nullptr, *function = nullptr;
  EXPECT_EQ(api().cuModuleLoadData(&module, "no cubin, but long enough to be looked at closely"),
            kInvalidImage);
  const Compiled other = compile(api(), "extern \"C\" __global__ void lf_k() {}", "sm_80");
  ASSERT_EQ(other.result, 0) << other.log;
  EXPECT_EQ(api().cuModuleLoadData(&module, other.cubin.data()), kNoBinaryForGpu);
  const Compiled good = compile(api(), "extern \"C\" __global__ void lf_k() {}");
  gpu.check(api().cuModuleLoadData(&module, good.cubin.data()));
  EXPECT_EQ(api().cuModuleGetFunction(&function, module, "lf_other"), kNotFound);
  gpu.check(api().cuModuleUnload(module));
  EXPECT_EQ(api().cuMemcpyHtoD(out, "abc", 2000), kInvalidValue);
  gpu.check(gpu.launch(bounded, 1, 64, 0, out));
  gpu.check(gpu.synchronise());
}

TEST_F(Faults, BadSourcesAreRefusedWithTheirLine) {
  // Fails when a source that does not compile yields a cubin, or the log does not say where.
  const Compiled bad = compile(api(), "extern \"C\" __global__ void lf_k(int* p) {\n  *p = q;\n}");
  EXPECT_EQ(bad.result, 6);
  EXPECT_NE(bad.log.find("test.cu:2"), std::string::npos) << bad.log;
  EXPECT_EQ(compile(api(), "", "sm_12345").result, 5);
}

}  // namespace
}  // namespace emulator
