// Runs in graphs that the caller captures: if these fail, an application's captures break, or its
// graphs compute something else than its calls.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/emulator/contexts/cuda_contexts_testing.h"

namespace common {
namespace {

TEST_F(CudaContextsTest, RunsGoIntoTheCallersCapture) {
  auto executor = load();
  DeviceMemory x = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
  std::vector<DeviceTensor> outputs;
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  EXPECT_EQ(read(outputs[0].data), (Values{3, 6, 9, 12}));
  const int allocated = emulator::calls_of("cuMemAlloc");
  const int replayed = emulator::calls_of("cuGraphLaunch");
  begin_capture();
  Status ran = executor->run_on(stream_, inputs, outputs);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  CudaGraphExec graph = end_capture();
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(emulator::calls_of("cuMemAlloc"), allocated);
  EXPECT_EQ(emulator::calls_of("cuGraphLaunch"), replayed) << "a recording went into the capture";
  EXPECT_EQ(read(outputs[0].data), (Values{3, 6, 9, 12})) << "the captured run ran";
  // The caller's graph goes on with the state each time.
  for (float k : {4.F, 5.F, 6.F}) {
    ASSERT_EQ(calls().launch_graph(graph, stream_), kCudaSuccess);
    ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
    EXPECT_EQ(read(outputs[0].data), (Values{k, 2 * k, 3 * k, 4 * k}));
  }
  // So do later runs, and larger ones of others do not take the memory away.
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  EXPECT_EQ(read(outputs[0].data), (Values{7, 14, 21, 28}));
  calls().destroy_graph_exec(graph);
}

TEST_F(CudaContextsTest, WhatCannotBeCapturedLeavesTheCaptureWhole) {
  auto executor = load();
  DeviceMemory x = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
  std::vector<DeviceTensor> outputs;
  begin_capture();
  // Without a run before there is no memory, and nothing is made now.
  EXPECT_FALSE(executor->run_on(stream_, inputs, outputs).ok());
  CudaGraphExec graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  begin_capture();
  HostTensor host = HostTensor::zeros(DType::kFloat32, {4}).value();
  std::vector<TensorRef> from_host = {ref_of(host)};
  std::vector<int64_t> times;
  EXPECT_EQ(executor->run_on(stream_, from_host, outputs).error().code, Code::kInvalidInput);
  EXPECT_EQ(executor->run_on(stream_, inputs, outputs, &times).error().code, Code::kInvalidInput);
  EXPECT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
}

TEST_F(CudaContextsTest, OtherThreadsAllocateWhileACallerCaptures) {
  DeviceMemory large = memory(Values(1 << 20, 1));
  begin_capture();
  std::thread([&] {
    large = {};
    for (size_t bytes : {size_t{12345}, size_t{1} << 24}) {
      EXPECT_TRUE(device_->allocate(bytes).ok());
    }
    EXPECT_TRUE(device_->allocate_host(4096).ok());
    auto executor = load();
    std::vector<DeviceTensor> outputs;
    DeviceMemory x = memory({1, 2, 3, 4});
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(outputs[0].data), (Values{4, 8, 12, 16}));
  }).join();
  CudaGraphExec graph = end_capture();
  EXPECT_NE(graph, nullptr);
  calls().destroy_graph_exec(graph);
}

TEST_F(CudaContextsTest, ReplaysAndRunsTakeTurnsOnOneState) {
  auto executor = load();
  DeviceMemory x = memory({1, 2, 3, 4});
  std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
  std::vector<DeviceTensor> outputs;
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  begin_capture();
  ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
  CudaGraphExec graph = end_capture();
  ASSERT_NE(graph, nullptr);
  for (float k = 2; k < 12; ++k) {
    if (static_cast<int>(k) % 3 == 0) {
      ASSERT_EQ(calls().launch_graph(graph, stream_), kCudaSuccess);
    } else {
      ASSERT_TRUE(executor->run_on(stream_, inputs, outputs).ok());
    }
    ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
    EXPECT_EQ(read(outputs[0].data), (Values{k, 2 * k, 3 * k, 4 * k})) << "run " << k;
  }
  // The next plan of the model takes over the states, and the graph goes on with them.
  auto next = load();
  ASSERT_TRUE(next->take_states(*executor).ok());
  std::vector<DeviceTensor> others;
  for (float k = 12; k < 18; k += 2) {
    ASSERT_TRUE(next->run_on(stream_, inputs, others).ok());
    ASSERT_EQ(calls().launch_graph(graph, stream_), kCudaSuccess);
    ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
    EXPECT_EQ(read(others[0].data), (Values{k, 2 * k, 3 * k, 4 * k}));
    EXPECT_EQ(read(outputs[0].data), (Values{k + 1, 2 * k + 2, 3 * k + 3, 4 * k + 4}));
  }
  calls().destroy_graph_exec(graph);
}

// A captured copy in, an arena and outputs stay where they were when larger runs come.
TEST_F(CudaContextsTest, LargerRunsLeaveTheGraphItsMemory) {
  // Memory that is gone once it is given back.
  auto allocate = [&](size_t bytes, int, void*) {
    CudaAddress address = 0;
    EXPECT_EQ(calls().allocate(&address, bytes), kCudaSuccess);
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  };
  auto release = [&](void* data, size_t, int, void*) {
    EXPECT_EQ(calls().free(reinterpret_cast<CudaAddress>(data)), kCudaSuccess);
  };
  device_ = open_cuda_device({.allocator = {allocate, release}}).value();
  PlanMaker m;
  Expr n = Expr::symbol(0);
  m.plan.symbols = {{1, 4096}};
  int x = m.input({n}), sum = m.temporary({n}), out = m.output({n});
  int add = m.kernel("add", n);
  m.plan.kernels.back().entry.block = {32, 32, 0};
  m.call(add, {x, x}, {sum}, {n});
  m.call(add, {sum, x}, {out}, {n});
  m.plan.key.target = device_->target();
  auto source = [](const Digest&) { return Result<ByteView>(ByteView(*object)); };
  auto executor = Executor::load(m.finish(*object), source, *device_);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  auto run = [&](int64_t count, const std::byte* data, std::vector<DeviceTensor>& outputs) {
    std::vector<int64_t> sizes = {count};
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes, const_cast<std::byte*>(data),
                                      static_cast<size_t>(count) * sizeof(float), true}};
    return (*executor)->run_on(stream_, inputs, outputs);
  };
  // One element past a multiple of the alignment, so that runs work on a copy.
  DeviceMemory x_small = memory({0, 1, 2, 3, 4}), x_large = memory(Values(4097, 9));
  std::vector<DeviceTensor> outputs, others;
  ASSERT_TRUE(run(4, x_small.data() + sizeof(float), outputs).ok());
  begin_capture();
  ASSERT_TRUE(run(4, x_small.data() + sizeof(float), outputs).ok());
  CudaGraphExec graph = end_capture();
  ASSERT_NE(graph, nullptr);
  for (int64_t count : {int64_t{1000}, int64_t{4096}}) {
    ASSERT_TRUE(run(count, x_large.data() + sizeof(float), others).ok());
  }
  ASSERT_TRUE(device_->fill(outputs[0].data, std::byte{0}, 16).ok());
  ASSERT_TRUE(device_->synchronise().ok());
  ASSERT_EQ(calls().launch_graph(graph, stream_), kCudaSuccess);
  ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
  EXPECT_EQ(read(outputs[0].data), (Values{3, 6, 9, 12}));
  calls().destroy_graph_exec(graph);
}

// The index lies in memory that the graph reads at each replay.
TEST_F(CudaContextsTest, ReplaysReportIndices) {
  PlanMaker m;
  int x = m.input({1}, InputKind::kUser, DType::kInt64);
  m.plan.outputs.push_back({OutputKind::kCheck, -1, 0, Expr(10), false});
  int found = m.add_buffer(BufferKind::kOutput, 0, {}, DType::kInt64);
  int find = m.kernel("find", Expr(1));
  m.plan.kernels.back().entry.block = {1, 1, 0};
  m.call(find, {x}, {found});
  m.plan.key.target = device_->target();
  auto source = [](const Digest&) { return Result<ByteView>(ByteView(*object)); };
  auto executor = Executor::load(m.finish(*object), source, *device_);
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  DeviceMemory index = std::move(device_->allocate(8)).value();
  auto set = [&](int64_t value) {
    ASSERT_TRUE(device_->copy_in(index.data(), std::as_bytes(std::span(&value, 1))).ok());
    ASSERT_TRUE(device_->synchronise().ok());
  };
  std::vector<int64_t> sizes = {1};
  std::vector<TensorRef> inputs = {{DType::kInt64, sizes, index.data(), 8, true}};
  std::vector<DeviceTensor> outputs;
  set(3);
  ASSERT_TRUE((*executor)->run_on(stream_, inputs, outputs).ok());
  // More graphs than runs may be on their way: captures wait for nothing.
  std::vector<CudaGraphExec> graphs;
  for (int k = 0; k < 70; ++k) {
    begin_capture();
    Status ran = (*executor)->run_on(stream_, inputs, outputs);
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    graphs.push_back(end_capture());
    ASSERT_NE(graphs.back(), nullptr);
  }
  auto replay = [&] {
    ASSERT_EQ(calls().launch_graph(graphs[5], stream_), kCudaSuccess);
    ASSERT_EQ(calls().synchronise_stream(stream_), kCudaSuccess);
  };
  EXPECT_FALSE((*executor)->take_failed_check());
  replay();
  EXPECT_FALSE((*executor)->take_failed_check());
  set(12);
  replay();
  auto failed = (*executor)->take_failed_check();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->limit, 10);
  EXPECT_FALSE(failed->is_last) << "it is of no call";
  EXPECT_FALSE((*executor)->take_failed_check()) << "reported twice";
  set(3);
  ASSERT_TRUE((*executor)->run_on(stream_, inputs, outputs).ok());
  EXPECT_FALSE((*executor)->take_failed_check());
  for (CudaGraphExec graph : graphs) calls().destroy_graph_exec(graph);
}

}  // namespace
}  // namespace common
