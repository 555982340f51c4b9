// Streams, events and graphs of the emulated GPU: work happens in order and no sooner than somebody
// waits for it.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/emulator/gpu.h"

namespace emulator {
namespace {

constexpr char kAdd[] = R"(
extern "C" __global__ void __launch_bounds__(64) lf_add(int* out, int value) {
  out[threadIdx.x] += value;
}
extern "C" __global__ void __launch_bounds__(64) lf_twice(int* out, int value) {
  out[threadIdx.x] = out[threadIdx.x] * 2 + 0 * value;
})";

struct UpdateResult {
  int result;
  void* node;
  void* from_node;
};

TEST(Work, HappensWhenSomebodyWaits) {
  // Fails when launches run at the call: host code that forgets to wait would pass.
  Gpu gpu;
  void* add = gpu.kernel(kAdd, "lf_add");
  void* pinned = nullptr;
  gpu.check(api().cuMemAllocHost(&pinned, 64 * sizeof(int)));
  auto* host = static_cast<int*>(pinned);
  std::memset(host, 0, 64 * sizeof(int));
  const uint64_t out = gpu.upload(std::vector<int>(64, 5));
  gpu.check(gpu.launch(add, 1, 64, 0, out, 3));
  gpu.check(api().cuMemcpyDtoHAsync(host, out, 64 * sizeof(int), gpu.stream));
  EXPECT_EQ(host[0], 0);
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 5) << "the null stream does not wait for this one";
  gpu.check(gpu.synchronise());
  EXPECT_EQ(host[63], 8);
  // Arguments are taken at the call, pinned memory is read when the copy happens.
  host[0] = 40;
  gpu.check(api().cuMemcpyHtoDAsync(out, host, sizeof(int), gpu.stream));
  std::vector<int> ordinary = {50};
  gpu.check(api().cuMemcpyHtoDAsync(out + 4, ordinary.data(), sizeof(int), gpu.stream));
  host[0] = 41;
  ordinary[0] = 51;
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<int>(out, 2), (std::vector<int>{41, 50}));
  gpu.check(api().cuMemFreeHost(pinned));
}

TEST(Work, EventsMarkTimesInOrder) {
  // Fails when an event's time is taken before the work in front of it.
  Gpu gpu;
  void* add = gpu.kernel(kAdd, "lf_add");
  const uint64_t out = gpu.upload(std::vector<int>(64));
  void *begin = nullptr, *end = nullptr;
  gpu.check(api().cuEventCreate(&begin, 0));
  gpu.check(api().cuEventCreate(&end, 0));
  float ms = -1;
  EXPECT_EQ(api().cuEventElapsedTime(&ms, begin, end), kInvalidHandle);
  gpu.check(api().cuEventRecord(begin, gpu.stream));
  for (int i = 0; i < 100; ++i) gpu.check(gpu.launch(add, 1, 64, 0, out, 1));
  gpu.check(api().cuEventRecord(end, gpu.stream));
  EXPECT_EQ(api().cuEventElapsedTime(&ms, begin, end), kNotReady);
  gpu.check(api().cuEventSynchronize(end));
  gpu.check(api().cuEventElapsedTime(&ms, begin, end));
  EXPECT_GT(ms, 0.0F);
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 100);
}

// A graph of `launches` launches of `kernel` with `value`.
void* capture(Gpu& gpu, void* kernel, uint64_t out, int value, int launches) {
  void* graph = nullptr;
  gpu.check(api().cuStreamBeginCapture(gpu.stream, 1));
  for (int i = 0; i < launches; ++i) gpu.check(gpu.launch(kernel, 1, 64, 0, out, value));
  gpu.check(api().cuStreamEndCapture(gpu.stream, &graph));
  return graph;
}

TEST(Work, GraphsRecordAndReplay) {
  // Fails when capture runs what it records, replay forgets some of it, or an update keeps what
  // was.
  Gpu gpu;
  void* add = gpu.kernel(kAdd, "lf_add");
  const uint64_t out = gpu.upload(std::vector<int>(64));
  void* graph = capture(gpu, add, out, 2, 3);
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 0) << "capture does not run";
  void* executable = nullptr;
  gpu.check(api().cuGraphInstantiate(&executable, graph, 0));
  gpu.check(api().cuGraphLaunch(executable, gpu.stream));
  gpu.check(api().cuGraphLaunch(executable, gpu.stream));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 12);

  UpdateResult result{};
  gpu.check(api().cuGraphExecUpdate(executable, capture(gpu, add, out, 10, 3), &result));
  EXPECT_EQ(result.result, 0);
  gpu.check(api().cuGraphLaunch(executable, gpu.stream));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 42);

  // Another function in a node's place is an update too; another number of nodes is not.
  void* twice = gpu.kernel(kAdd, "lf_twice");
  gpu.check(api().cuGraphExecUpdate(executable, capture(gpu, twice, out, 0, 3), &result));
  EXPECT_EQ(api().cuGraphExecUpdate(executable, capture(gpu, add, out, 1, 2), &result),
            kGraphUpdateFailed);
  EXPECT_EQ(result.result, 2);
  gpu.check(api().cuGraphLaunch(executable, gpu.stream));
  gpu.check(gpu.synchronise());
  EXPECT_EQ(gpu.download<int>(out, 1)[0], 336);
}

TEST(Work, CaptureRefusesToWait) {
  // Fails when a stream may be waited for, or memory taken, while this thread captures: a real
  // driver then invalidates the capture.
  Gpu gpu;
  void* graph = nullptr;
  uint64_t address = 0;
  gpu.check(api().cuStreamBeginCapture(gpu.stream, 1));
  EXPECT_EQ(gpu.synchronise(), kCaptureUnsupported);
  EXPECT_EQ(api().cuStreamEndCapture(gpu.stream, &graph), kCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  gpu.check(api().cuStreamBeginCapture(gpu.stream, 1));
  EXPECT_EQ(api().cuMemAlloc(&address, 64), kCaptureUnsupported);
  EXPECT_EQ(api().cuStreamEndCapture(gpu.stream, &graph), kCaptureInvalidated);
  gpu.check(api().cuMemAlloc(&address, 64));
  gpu.check(gpu.synchronise());
}

}  // namespace
}  // namespace emulator
