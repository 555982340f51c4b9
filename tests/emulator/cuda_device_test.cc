// The CUDA device as the runtime uses it, on the emulated GPU: if these fail, plans run wrong on
// GPUs, or a fault of a kernel goes unnoticed.
#include "common/runtime/device/cuda_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/driver.h"
#include "common/cuda/nvrtc.h"
#include "common/process/shared_library.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr const char* kKernels = R"(
#ifndef LF_EMULATED
typedef long int64_t;
#endif
// out[i] = in[i] * s0
extern "C" __global__ void __launch_bounds__(64) scale(const float* in, float* out, int64_t s0,
    int64_t units, char* scratch, int64_t scratch_stride) {
  int64_t i = (int64_t)blockIdx.x * 64 + threadIdx.x;
  if (i < units) out[i] = in[i] * s0;
}
// Reverses 16384 floats in dynamic shared memory.
extern "C" __global__ void __launch_bounds__(256) reverse(const float* in, float* out,
    int64_t units, char* scratch, int64_t scratch_stride) {
  extern __shared__ __align__(16) unsigned char lf_shared[];
  float* held = (float*)lf_shared;
  for (int i = threadIdx.x; i < 16384; i += 256) held[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 16384; i += 256) out[i] = held[16383 - i];
}
// Where the block's scratch memory is, seen from the first.
extern "C" __global__ void __launch_bounds__(32) scratch_of(int64_t* out, int64_t units,
    char* scratch, int64_t scratch_stride) {
  if (threadIdx.x == 0) out[blockIdx.x] = (int64_t)blockIdx.x * scratch_stride;
  scratch[blockIdx.x * scratch_stride] = (char)blockIdx.x;
}
extern "C" __global__ void __launch_bounds__(32) wild(float* out, int64_t units, char* scratch,
    int64_t scratch_stride) {
  float* nowhere = (float*)16;
  nowhere[threadIdx.x] = 1;
}
)";

class CudaDeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto nvrtc = Nvrtc::open();
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.error().message;
    auto compiled = (*nvrtc)->compile(kKernels, "sm_90a", {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    cubin = new Bytes(std::move(compiled->cubin));
  }
  static void TearDownTestSuite() { delete cubin; }
  void SetUp() override {
    // The tests' own calls of the driver.
    auto driver = CudaDriver::open();
    ASSERT_TRUE(driver.ok()) << driver.error().message;
    CudaContext context = nullptr;
    ASSERT_EQ((*driver)->calls().retain_context(&context, 0), kCudaSuccess);
    ASSERT_EQ((*driver)->calls().set_context(context), kCudaSuccess);
    auto opened = open_cuda_device();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    device_ = std::move(opened).value();
    auto loaded = device_->load(digest_of(*cubin), *cubin);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    module_ = *loaded;
  }

  DeviceMemory memory(size_t bytes) {
    auto made = device_->allocate(bytes);
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
  }
  DeviceMemory floats(const std::vector<float>& values) {
    DeviceMemory made = memory(values.size() * sizeof(float));
    EXPECT_TRUE(device_->copy_in(made.data(), std::as_bytes(std::span(values))).ok());
    return made;
  }
  std::vector<float> read(const DeviceMemory& from) {
    std::vector<float> values(from.size() / sizeof(float));
    Status copied = device_->copy_out(std::as_writable_bytes(std::span(values)), from.data());
    EXPECT_TRUE(copied.ok()) << copied.error().message;
    return values;
  }
  Launch launch(const std::string& entry, std::vector<void*>& buffers, BlockShape block,
                int64_t units) {
    auto function = module_->entry(entry);
    EXPECT_TRUE(function.ok());
    Launch made;
    made.function = function.ok() ? *function : Function{};
    made.buffers = buffers;
    made.units = units;
    made.block = block;
    return made;
  }

  static Bytes* cubin;
  std::unique_ptr<Device> device_;
  std::shared_ptr<Module> module_;
};

// What the emulated GPU and its library alone can be told, or alone are known to do.
class EmulatedDeviceTest : public CudaDeviceTest {};
Bytes* CudaDeviceTest::cubin = nullptr;

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.f);
  return values;
}

TEST_F(CudaDeviceTest, IsWhatAutoMeans) {
  EXPECT_EQ(device_->target().name, "cuda-sm_90a");
  auto found = find_device("auto");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->name, "cuda");
  EXPECT_EQ(found->target, device_->target());
}

TEST_F(CudaDeviceTest, LaunchesEnoughBlocksForItsUnits) {
  for (size_t n : {1, 63, 64, 65, 1000}) {
    DeviceMemory in = floats(counting(n)), out = memory(n * sizeof(float));
    std::vector<void*> buffers = {in.data(), out.data()};
    std::vector<int64_t> symbols = {3};
    Launch scale = launch("scale", buffers, {64, 64, 0}, static_cast<int64_t>(n));
    scale.symbols = symbols;
    ASSERT_TRUE(device_->launch(scale).ok());
    symbols[0] = 100;  // arguments went along with the launch
    buffers = {nullptr, nullptr};
    std::vector<float> values = read(out);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(values[i], 3 * static_cast<float>(i + 1));
  }
}

TEST_F(CudaDeviceTest, GivesAKernelTheSharedMemoryItAsksFor) {
  constexpr size_t kFloats = 16384;
  DeviceMemory in = floats(counting(kFloats)), out = memory(kFloats * sizeof(float));
  std::vector<void*> buffers = {in.data(), out.data()};
  BlockShape block{256, 1, kFloats * sizeof(float)};
  Status launched = device_->launch(launch("reverse", buffers, block, 1));
  ASSERT_TRUE(launched.ok()) << launched.error().message;
  EXPECT_EQ(read(out).front(), kFloats);
  EXPECT_EQ(read(out).back(), 1);
  // A launch that wants less must not stand for those that want more.
  std::vector<int64_t> symbols = {3};
  for (int64_t bytes : {int64_t{1024}, int64_t{65536}}) {
    Launch scale = launch("scale", buffers, {64, 64, bytes}, 64);
    scale.symbols = symbols;
    Status status = device_->launch(scale);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  block.shared_bytes = 1 << 20;
  EXPECT_EQ(device_->launch(launch("reverse", buffers, block, 1)).error().code, Code::kUnsupported);
}

TEST_F(CudaDeviceTest, LaunchesBeyondItsLimitsAreRefusedByName) {
  std::vector<void*> none;
  auto refusal = [&](BlockShape block, int64_t units) {
    Status status = device_->launch(launch("wild", none, block, units));
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_NE(refusal({2048, 1, 0}, 1).find("2048 threads"), std::string::npos);
  EXPECT_NE(refusal({0, 1, 0}, 1).find("0 threads"), std::string::npos);
  EXPECT_NE(refusal({32, 1, 0}, int64_t{1} << 40).find("blocks"), std::string::npos);
  EXPECT_FALSE(device_->is_faulted());
}

TEST_F(CudaDeviceTest, EveryBlockHasItsOwnScratchMemory) {
  constexpr int64_t kBlocks = 5;
  constexpr size_t kStride = 128;
  DeviceMemory out = memory(kBlocks * sizeof(int64_t)), scratch = memory(kBlocks * kStride);
  std::vector<void*> buffers = {out.data()};
  Launch made = launch("scratch_of", buffers, {32, 1, 0}, kBlocks);
  made.scratch = scratch.data();
  made.scratch_stride = kStride;
  ASSERT_TRUE(device_->launch(made).ok());
  std::vector<char> bytes(kBlocks * kStride);
  ASSERT_TRUE(device_->copy_out(std::as_writable_bytes(std::span(bytes)), scratch.data()).ok());
  for (size_t b = 0; b < kBlocks; ++b) EXPECT_EQ(bytes[b * kStride], static_cast<char>(b));
}

TEST_F(CudaDeviceTest, CopiesAndFillsInOrder) {
  DeviceMemory first = floats({1, 2, 3}), second = memory(first.size());
  ASSERT_TRUE(device_->fill(second.data(), std::byte{0}, second.size()).ok());
  EXPECT_EQ(read(second), (std::vector<float>{0, 0, 0}));
  ASSERT_TRUE(device_->copy(second.data(), first.data(), first.size()).ok());
  ASSERT_TRUE(device_->fill(first.data(), std::byte{0}, first.size()).ok());
  ASSERT_TRUE(device_->flush_caches().ok());
  EXPECT_EQ(read(second), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read(first), (std::vector<float>{0, 0, 0}));
}

TEST_F(CudaDeviceTest, FreedMemoryIsUsedAgain) {
  const std::byte* before = nullptr;
  {
    DeviceMemory gone = memory(1000);
    before = gone.data();
  }
  DeviceMemory other = memory(5000);
  EXPECT_NE(other.data(), before);
  DeviceMemory same = memory(1000);
  EXPECT_EQ(same.data(), before);
}

TEST_F(CudaDeviceTest, WantsMoreMemoryThanThereIs) {
  auto made = device_->allocate(size_t{1} << 50);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_FALSE(device_->is_faulted());
}

// Bytes that are not in use and bytes that there are, as the driver counts them.
struct MemoryInfo {
  size_t free = 0, total = 0;
};
MemoryInfo memory_info() {
  auto driver = SharedLibrary::open({"libcuda.so.1"});
  int (*info)(size_t*, size_t*) = nullptr;
  MemoryInfo now;
  EXPECT_TRUE(driver.ok() && (*driver)->find(info, "cuMemGetInfo_v2") &&
              info(&now.free, &now.total) == 0);
  return now;
}
size_t free_bytes() { return memory_info().free; }

TEST_F(EmulatedDeviceTest, KeptMemoryIsGivenBackWhenThereIsNoMore) {
  constexpr size_t kMiB = size_t{1} << 20;
  const MemoryInfo before = memory_info();
  const size_t used = before.total - before.free;
  ::setenv("LFARM_EMULATOR_MEMORY", std::to_string(used + 64 * kMiB).c_str(), 1);
  { DeviceMemory gone = memory(40 * kMiB); }
  EXPECT_EQ(free_bytes(), 24 * kMiB) << "nothing was kept";
  EXPECT_TRUE(device_->allocate(48 * kMiB).ok());
  ::unsetenv("LFARM_EMULATOR_MEMORY");
}

TEST_F(CudaDeviceTest, FlushingWritesMoreThanTheCacheHolds) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver.ok());
  int64_t cache = (*driver)->device(0)->l2_bytes;
  ASSERT_GT(cache, 0);
  size_t before = free_bytes();
  ASSERT_TRUE(device_->flush_caches().ok());
  ASSERT_TRUE(device_->synchronise().ok());
  EXPECT_GT(before - free_bytes(), static_cast<size_t>(cache));
}

TEST_F(CudaDeviceTest, ObjectsAreSharedAndDamagedOnesRefused) {
  auto again = device_->load(digest_of(*cubin), *cubin);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, module_);
  Bytes damaged(1000, std::byte{7});
  EXPECT_EQ(device_->load(digest_of(damaged), damaged).error().code, Code::kCorrupt);
  EXPECT_EQ(module_->entry("missing").error().code, Code::kCorrupt);
}

TEST_F(CudaDeviceTest, ReplaysWhatWasRecordedAndUpdatesIt) {
  DeviceMemory in = floats(counting(64)), out = floats(std::vector<float>(64, 0));
  std::vector<void*> forth = {in.data(), out.data()}, back = {out.data(), in.data()};
  std::vector<int64_t> three = {3}, two = {2};
  Launch first = launch("scale", forth, {64, 64, 0}, 64);
  Launch second = launch("scale", back, {64, 64, 0}, 64);
  first.symbols = three;
  second.symbols = two;
  auto row = [&]() -> Status {
    LFARM_RETURN_IF_ERROR(device_->launch(first));
    return device_->launch(second);
  };
  std::unique_ptr<Recording> recording;
  ASSERT_TRUE(device_->record(row, recording).ok());
  EXPECT_EQ(read(out), std::vector<float>(64, 0)) << "recording ran the launches";
  for (int k = 0; k < 2; ++k) ASSERT_TRUE(device_->replay(*recording).ok());
  EXPECT_EQ(read(in)[0], 36);
  EXPECT_EQ(read(out)[1], 36);
  ASSERT_TRUE(device_->launch(first).ok());
  EXPECT_EQ(read(out)[1], 216) << "launches go to the recording still";
  const Recording* made = recording.get();

  // The same kernels on other memory.
  DeviceMemory fresh = floats(counting(64));
  forth = {fresh.data(), out.data()};
  back = {out.data(), fresh.data()};
  ASSERT_TRUE(device_->record(row, recording).ok());
  ASSERT_TRUE(device_->replay(*recording).ok());
  EXPECT_EQ(read(fresh)[0], 6);
  EXPECT_EQ(read(in)[0], 36);
  EXPECT_EQ(recording.get(), made) << "an update would have done";

  // Another number of launches, which no update turns the graph into.
  ASSERT_TRUE(device_->record([&] { return device_->launch(first); }, recording).ok());
  ASSERT_TRUE(device_->replay(*recording).ok());
  EXPECT_EQ(read(out)[0], 18);
  EXPECT_EQ(read(fresh)[0], 6);
}

TEST_F(CudaDeviceTest, CallersStreamsTakeTurnsWithItsOwn) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver.ok());
  CudaStream streams[2] = {};
  for (CudaStream& stream : streams) {
    ASSERT_EQ((*driver)->calls().create_stream(&stream, kCudaStreamNonBlocking), kCudaSuccess);
  }
  // What one stream computes the next one reads.
  DeviceMemory first = floats(counting(64)), second = memory(first.size());
  std::vector<void*> forth = {first.data(), second.data()}, back = {second.data(), first.data()};
  std::vector<int64_t> three = {3}, two = {2};
  Launch tripled = launch("scale", forth, {64, 64, 0}, 64);
  Launch doubled = launch("scale", back, {64, 64, 0}, 64);
  tripled.symbols = three;
  doubled.symbols = two;
  ASSERT_TRUE(device_->begin_stream(streams[0]).ok());
  ASSERT_TRUE(device_->launch(tripled).ok());
  ASSERT_TRUE(device_->end_stream().ok());
  ASSERT_TRUE(device_->launch(doubled).ok());
  ASSERT_TRUE(device_->begin_stream(streams[1]).ok());
  ASSERT_TRUE(device_->launch(tripled).ok());
  // A copy to the host waits for the stream that it is on.
  EXPECT_EQ(read(second)[1], 36);
  ASSERT_TRUE(device_->end_stream().ok());
  EXPECT_EQ(read(first)[1], 12);

  // Threads on streams of a caller's, on the device's own and in recordings, each for memory of its
  // own, which is allocated and freed meanwhile.
  auto negate = [&](CudaStream stream, std::vector<float>& result) {
    constexpr int kSteps = 25;
    DeviceMemory in = floats(counting(64));
    std::vector<int64_t> minus_one = {-1};
    for (int step = 0; step < kSteps; ++step) {
      if (stream != nullptr) {
        ASSERT_TRUE(device_->begin_stream(stream).ok());
      }
      DeviceMemory out = memory(in.size());
      std::vector<void*> buffers = {in.data(), out.data()};
      Launch negated = launch("scale", buffers, {64, 64, 0}, 64);
      negated.symbols = minus_one;
      std::unique_ptr<Recording> recording;
      Status done = step % 2 == 0
                        ? device_->launch(negated)
                        : device_->record([&] { return device_->launch(negated); }, recording);
      if (done.ok() && recording != nullptr) done = device_->replay(*recording);
      EXPECT_TRUE(done.ok()) << done.error().message;
      if (stream != nullptr) {
        ASSERT_TRUE(device_->end_stream().ok());
      }
      in = std::move(out);
    }
    result = read(in);
  };
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < results.size(); ++k) {
    threads.emplace_back([&, k] { negate(k < 2 ? streams[k] : nullptr, results[k]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) {
    ASSERT_EQ(result.size(), 64u);
    for (size_t k = 0; k < 64; ++k) EXPECT_EQ(result[k], -static_cast<float>(k + 1));
  }
  for (CudaStream stream : streams) (*driver)->calls().destroy_stream(stream);
}

// 2 by 3 times 3 by 2, both in rows; the second matrix begins at its second element.
GemmSizes small_product() {
  GemmSizes sizes;
  sizes.m = sizes.n = 2;
  sizes.k = 3;
  sizes.a = {0, 0, 3, 1};
  sizes.b = {1, 0, 2, 1};
  sizes.out = {0, 0, 2, 1};
  return sizes;
}

TEST_F(CudaDeviceTest, LibraryProductsWaitTheirTurnAndAreRecorded) {
  ASSERT_TRUE(device_->has_gemm());
  DeviceMemory a = floats(counting(6)), b = floats(counting(7)), out = floats({0, 0, 0, 0});
  auto product = [&] { return device_->gemm(small_product(), a.data(), b.data(), out.data()); };
  Status status = product();
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(read(out), (std::vector<float>{28, 34, 64, 79}));
  std::unique_ptr<Recording> recording;
  status = device_->record(product, recording);
  ASSERT_TRUE(status.ok()) << status.error().message;
  ASSERT_TRUE(device_->fill(out.data(), std::byte{0}, out.size()).ok());
  ASSERT_TRUE(device_->replay(*recording).ok());
  EXPECT_EQ(read(out), (std::vector<float>{28, 34, 64, 79}));
  // The same product, written in columns.
  GemmSizes turned = small_product();
  turned.out = {0, 0, 1, 2};
  ASSERT_TRUE(device_->gemm(turned, a.data(), b.data(), out.data()).ok());
  EXPECT_EQ(read(out), (std::vector<float>{28, 64, 34, 79}));
}

// One row whose sum depends on its order: 1 is lost beside 2^25. The emulated library's algorithm p
// sums in p + 1 parts, each of every (p + 1)th term.
constexpr float kTerms[] = {1 << 25, 1, -(1 << 25), 1};
constexpr float kSums[] = {1, 2};

TEST_F(EmulatedDeviceTest, ProductsUseTheAlgorithmThatIsAskedFor) {
  GemmSizes sizes;
  sizes.m = sizes.n = 1;
  sizes.k = 4;
  sizes.a = {0, 0, 4, 1};
  sizes.b = {0, 0, 1, 1};
  sizes.out = {0, 0, 1, 1};
  DeviceMemory a = floats({std::begin(kTerms), std::end(kTerms)}), b = floats({1, 1, 1, 1}),
               out = floats({0});
  auto product = [&](Device& device, int algorithm) {
    sizes.algorithm = algorithm;
    return device.gemm(sizes, a.data(), b.data(), out.data());
  };
  for (int algorithm : {1, 0, 1}) {
    Status status = product(*device_, algorithm);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(read(out)[0], kSums[algorithm]) << algorithm;
  }
  // A plan from a library with a longer list still runs; a measurement must be of what was asked.
  ASSERT_TRUE(product(*device_, 7).ok());
  EXPECT_EQ(read(out)[0], kSums[0]);
  auto exact = open_cuda_device({.exact_algorithms = true});
  ASSERT_TRUE(exact.ok()) << exact.error().message;
  EXPECT_TRUE(product(**exact, 1).ok());
  Status refused = product(**exact, 7);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().message, "cuBLASLt lists 4 algorithms for this product, none at 7");
}

TEST_F(EmulatedDeviceTest, PlansSayWhichAlgorithmTheirProductsUse) {
  PlanMaker m;
  m.plan.key.target = device_->target();
  int a = m.input({1, 4}), b = m.input({4, 1}), out = m.output({1, 1});
  PlanKernel kernel;
  kernel.library = true;
  kernel.gemm.m = kernel.gemm.n = 1;
  kernel.gemm.k = 4;
  kernel.gemm.a = {0, 0, 4, 1};
  kernel.gemm.b = {0, 0, 1, 1};
  kernel.gemm.out = {0, 0, 1, 1};
  m.plan.kernels.push_back(kernel);
  m.call(0, {a, b}, {out});
  std::vector<HostTensor> inputs = {*HostTensor::zeros(DType::kFloat32, {1, 4}),
                                    *HostTensor::zeros(DType::kFloat32, {4, 1})};
  for (size_t k = 0; k < 4; ++k) {
    inputs[0].set(static_cast<int64_t>(k), kTerms[k]);
    inputs[1].set(static_cast<int64_t>(k), 1);
  }
  for (int algorithm : {0, 1}) {
    m.plan.kernels[0].algorithm = algorithm;
    auto executor = Executor::load(
        m.plan, [](const Digest&) -> Result<ByteView> { return corrupt("no object"); }, *device_);
    ASSERT_TRUE(executor.ok()) << executor.error().message;
    auto result = (*executor)->run(inputs);
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->user.at(0).get(0), kSums[algorithm]);
  }
}

TEST_F(CudaDeviceTest, EmptyProductsAreSumsOfNothing) {
  DeviceMemory a = floats(counting(6)), b = floats(counting(7)), out = floats({1, 2, 3, 4});
  for (int64_t GemmSizes::*size : {&GemmSizes::m, &GemmSizes::n, &GemmSizes::batch}) {
    GemmSizes sizes = small_product();
    sizes.*size = 0;
    Status status = device_->gemm(sizes, a.data(), b.data(), out.data());
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  EXPECT_EQ(read(out), (std::vector<float>{1, 2, 3, 4}));
  GemmSizes sizes = small_product();
  sizes.k = 0;
  ASSERT_TRUE(device_->gemm(sizes, a.data(), b.data(), out.data()).ok());
  EXPECT_EQ(read(out), std::vector<float>(4, 0));
  sizes.out = {0, 0, 1, 2};
  EXPECT_EQ(device_->gemm(sizes, a.data(), b.data(), out.data()).error().code, Code::kUnsupported);
}

TEST_F(CudaDeviceTest, ARowThatFailsLeavesNoRecording) {
  std::vector<void*> none;
  std::unique_ptr<Recording> recording;
  Status status = device_->record(
      [&] {
        return device_->launch(launch("wild", none, {2048, 1, 0}, 1));
      },
      recording);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(recording, nullptr);
  DeviceMemory memory = floats({1});
  EXPECT_EQ(read(memory), (std::vector<float>{1})) << "launches go to the recording still";
}

TEST_F(EmulatedDeviceTest, KnowsWhatSlowsItDown) {
  constexpr const char* kReasons = "LFARM_EMULATOR_CLOCK_REASONS";
  EXPECT_EQ(device_->slowdown(), "");
  for (const char* harmless : {"1", "2", "4"}) {  // idle, set by somebody, power used to the full
    ::setenv(kReasons, harmless, 1);
    EXPECT_EQ(device_->slowdown(), "") << harmless;
  }
  for (const char* slow : {"0x8", "0x20", "0x44", "0x80"}) {
    ::setenv(kReasons, slow, 1);
    EXPECT_EQ(device_->slowdown(), "its clock is at 1500 of 1980 MHz, at 45 degrees Celsius");
  }
  ::unsetenv(kReasons);
  EXPECT_EQ(device_->hardware_id().size(), 32u);
}

TEST_F(CudaDeviceTest, TimesWhatLiesBetweenMarks) {
  DeviceMemory in = floats(counting(64)), out = memory(256);
  std::vector<void*> buffers = {in.data(), out.data()};
  std::vector<int64_t> symbols = {3};
  Launch scale = launch("scale", buffers, {64, 64, 0}, 64);
  scale.symbols = symbols;
  constexpr int64_t kLaunches = 20;
  auto whole = device_->make_timer(2);
  auto timer =
      device_->make_timer(3);  // as many marks as there are, not as were asked for at first
  for (int run = 0; run < 2; ++run) {
    whole->mark();
    timer->mark();
    for (int k = 0; k < kLaunches; ++k) {
      ASSERT_TRUE(device_->launch(scale).ok());
      timer->mark();
    }
    whole->mark();
    auto intervals = timer->take_intervals_ns();
    ASSERT_TRUE(intervals.ok()) << intervals.error().message;
    ASSERT_EQ(intervals->size(), static_cast<size_t>(kLaunches));
    for (int64_t ns : *intervals) EXPECT_GE(ns, 0);
    auto all = whole->take_intervals_ns();
    ASSERT_TRUE(all.ok()) << all.error().message;
    // The driver rounds each of them.
    EXPECT_LE(std::accumulate(intervals->begin(), intervals->end(), int64_t{0}),
              all->at(0) + kLaunches);
  }
}

// In processes of their own: no other test can use the device afterwards.
using CudaDeviceDeathTest = CudaDeviceTest;
TEST_F(CudaDeviceDeathTest, AKernelsFaultIsKnownAsSuch) {
  auto fault = [this] {
    DeviceMemory out = memory(256);
    std::vector<void*> buffers = {out.data()};
    Status launched = device_->launch(launch("wild", buffers, {32, 1, 0}, 1));
    Status waited = device_->synchronise();
    bool known = launched.ok() && !waited.ok() && waited.error().code == Code::kDeviceSick &&
                 device_->is_faulted() &&
                 waited.error().message.find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos;
    bool sticks = !device_->allocate(777).ok() || !device_->synchronise().ok();
    std::_Exit(known && sticks ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace common
