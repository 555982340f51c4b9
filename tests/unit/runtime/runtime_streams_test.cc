// Runs on the device's own tensors: if these fail, data goes through the host, a run is waited for
// that nobody asked to wait for, or states are lost between plans of one model.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/runtime/device/cpu_device.h"
#include "common/runtime/executor/executor.h"
#include "tests/unit/runtime/late_device.h"
#include "tests/unit/runtime/runtime_testing.h"

namespace common {
namespace {

constexpr const char* kKernels = R"(
#define F(k) ((float*)b[k])
KERNEL(add) { for (int64_t i = begin; i < end; ++i) F(2)[i] = F(0)[i] + F(1)[i]; }
KERNEL(grow) { for (int64_t i = 0; i < s[0]; ++i) { F(2)[i] = F(0)[i] + F(1)[i]; F(3)[i] = F(2)[i]; } }
KERNEL(grow_twice) { for (int64_t i = 0; i < s[0]; ++i) { F(2)[i] = F(0)[i] + 2 * F(1)[i]; F(3)[i] = F(2)[i]; } }
)";
using Values = std::vector<float>;

// The tests' own memory of the device.
class OnDevice {
 public:
  OnDevice(Device& device, const Values& values)
      : device_(&device), sizes_{static_cast<int64_t>(values.size())} {
    memory_ = std::move(device.allocate(values.size() * sizeof(float))).value();
    EXPECT_TRUE(device.copy_in(memory_.data(), std::as_bytes(std::span(values))).ok());
    EXPECT_TRUE(device.synchronise().ok());
  }
  TensorRef ref() const { return {DType::kFloat32, sizes_, memory_.data(), memory_.size(), true}; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  Values values() const { return read(memory_.data()); }
  Values read(const std::byte* data) const {
    Values out(static_cast<size_t>(sizes_[0]));
    EXPECT_TRUE(device_->copy_out(std::as_writable_bytes(std::span(out)), data).ok());
    return out;
  }

 private:
  Device* device_;
  std::vector<int64_t> sizes_;
  DeviceMemory memory_;
};

class Streams : public testing::Test {
 protected:
  static void SetUpTestSuite() { object = new Bytes(compile_object(kKernels)); }
  static void TearDownTestSuite() { delete object; }
  std::unique_ptr<Executor> load(PlanMaker maker, Device& device) {
    Plan plan = maker.finish(*object);
    plan.key.target = device.target();
    auto source = [](const Digest&) -> Result<ByteView> { return ByteView(*object); };
    auto executor = Executor::load(plan, source, device);
    EXPECT_TRUE(executor.ok()) << (executor.ok() ? "" : executor.error().message);
    return executor.ok() ? std::move(*executor) : nullptr;
  }
  // out = x + w
  static PlanMaker sum() {
    PlanMaker m;
    int x = m.input({4}), w = m.input({4}, InputKind::kWeight), out = m.output({4});
    m.call(m.kernel("add", 4), {x, w}, {out}, {4});
    return m;
  }
  // state' = state + x; out = state'. Of several plans of one model, each by its own kernel.
  static PlanMaker running_sum(const char* kernel, InputKind kind) {
    PlanMaker m;
    int state = m.input({4}, kind), x = m.input({4});
    int fresh = m.mutate(0, {4}), out = m.output({4});
    m.call(m.kernel(kernel), {state, x}, {fresh, out}, {4});
    return m;
  }

  static Bytes* object;
  LateDevice device_;
  int stream_ = 0;  // its address stands for a stream
};
Bytes* Streams::object = nullptr;

TEST_F(Streams, NothingGoesThroughTheHostOrIsWaitedFor) {
  auto executor = load(sum(), device_);
  OnDevice x(device_, {1, 2, 3, 4}), w(device_, {10, 20, 30, 40}), mine(device_, {0, 0, 0, 0});
  ASSERT_TRUE(executor->bind_weight(1, w.ref()).ok());
  std::vector<DeviceTensor> outputs(1);
  outputs[0] = {DType::kFloat32, mine.sizes(), mine.ref().data, {}};
  int in = device_.copied_in, out = device_.copied_out;
  std::vector<TensorRef> inputs = {x.ref()};
  for (int k = 0; k < 3; ++k) {
    ASSERT_TRUE(executor->run_on(&stream_, inputs, outputs).ok());
    EXPECT_FALSE(device_.is_idle()) << "the run was waited for";
    EXPECT_EQ(device_.begun, k + 1);
    EXPECT_EQ(device_.ended, k + 1);
  }
  EXPECT_EQ(device_.copied_in, in);
  EXPECT_EQ(device_.copied_out, out);
  EXPECT_EQ(mine.values(), (Values{11, 22, 33, 44}));
  EXPECT_GT(device_.replayed, 0) << "the same memory again is a recorded row";

  // Without a stream, and with outputs of the executor's own, which are used again.
  std::vector<DeviceTensor> own;
  ASSERT_TRUE(executor->run_on(nullptr, inputs, own).ok());
  EXPECT_TRUE(device_.is_idle());
  EXPECT_EQ(device_.begun, 3);
  EXPECT_EQ(x.read(own.at(0).data), (Values{11, 22, 33, 44}));
  const std::byte* memory = own[0].data;
  ASSERT_TRUE(executor->run_on(nullptr, inputs, own).ok());
  EXPECT_EQ(own[0].data, memory);
}

TEST_F(Streams, WhatLiesInHostMemoryIsDoneWithOnReturn) {
  auto executor = load(sum(), device_);
  HostTensor w = HostTensor::zeros(DType::kFloat32, {4}).value();
  ASSERT_TRUE(executor->bind_weight(1, w).ok());
  HostTensor x = HostTensor::zeros(DType::kFloat32, {4}).value();
  x.set(0, 5);
  std::vector<DeviceTensor> outputs;
  std::vector<TensorRef> inputs = {ref_of(x)};
  ASSERT_TRUE(executor->run_on(&stream_, inputs, outputs).ok());
  EXPECT_TRUE(device_.is_idle());
  OnDevice sizes(device_, {0, 0, 0, 0});
  EXPECT_EQ(sizes.read(outputs.at(0).data), (Values{5, 0, 0, 0}));
}

TEST_F(Streams, MemoryThatDoesNotFitIsRefusedAndTheStreamGivenBack) {
  auto executor = load(sum(), device_);
  OnDevice x(device_, {1, 2, 3, 4}), w(device_, {0, 0, 0, 0});
  ASSERT_TRUE(executor->bind_weight(1, w.ref()).ok());
  std::vector<TensorRef> inputs = {x.ref()};
  std::vector<DeviceTensor> outputs(1);
  outputs[0] = {DType::kFloat32, {3}, x.ref().data, {}};
  Status status = executor->run_on(&stream_, inputs, outputs);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidInput);
  EXPECT_NE(status.error().message.find("output 0: f32[4]"), std::string::npos)
      << status.error().message;
  outputs[0] = {DType::kFloat32, {4}, x.ref().data + 4, {}};
  EXPECT_FALSE(executor->run_on(&stream_, inputs, outputs).ok());
  EXPECT_EQ(device_.begun, device_.ended);
  // Inputs and weights that are not aligned are copied, on the device.
  std::vector<int64_t> two = {4};
  TensorRef off = {DType::kFloat32, two, w.ref().data, 16, true};
  OnDevice wide(device_, Values(32, 7));
  off.data = wide.ref().data + 4;
  int in = device_.copied_in;
  inputs[0] = off;
  ASSERT_TRUE(executor->bind_weight(1, off).ok());
  std::vector<DeviceTensor> own;
  ASSERT_TRUE(executor->run_on(nullptr, inputs, own).ok());
  EXPECT_EQ(device_.copied_in, in);
  EXPECT_EQ(x.read(own.at(0).data), (Values{14, 14, 14, 14}));
}

TEST_F(Streams, UserInputsThatAreMutatedAreWrittenWhereTheyLie) {
  auto executor = load(running_sum("grow", InputKind::kUser), device_);
  OnDevice total(device_, {1, 1, 1, 1}), x(device_, {1, 2, 3, 4});
  std::vector<TensorRef> inputs = {total.ref(), x.ref()};
  std::vector<DeviceTensor> outputs;
  for (int k = 0; k < 2; ++k) ASSERT_TRUE(executor->run_on(&stream_, inputs, outputs).ok());
  EXPECT_FALSE(device_.is_idle());
  EXPECT_EQ(total.values(), (Values{3, 5, 7, 9}));
  HostTensor host = HostTensor::zeros(DType::kFloat32, {4}).value();
  inputs[0] = ref_of(host);
  ASSERT_TRUE(executor->run_on(&stream_, inputs, outputs).ok());
  EXPECT_EQ(host.get(3), 4);
}

TEST_F(Streams, StatesChangeHandsWithoutCopies) {
  auto one = load(running_sum("grow", InputKind::kState), device_);
  auto other = load(running_sum("grow_twice", InputKind::kState), device_);
  HostTensor begin = HostTensor::zeros(DType::kFloat32, {4}).value();
  for (Executor* executor : {one.get(), other.get()}) {
    ASSERT_TRUE(executor->set_state(0, begin).ok());
  }
  OnDevice x(device_, {1, 2, 3, 4});
  std::vector<TensorRef> inputs = {x.ref()};
  std::vector<DeviceTensor> outputs;
  int in = device_.copied_in, out = device_.copied_out;
  Executor* now = one.get();
  for (int step = 0; step < 6; ++step) {
    Executor* next = step % 3 == 2 ? other.get() : one.get();
    if (next != now) {
      ASSERT_TRUE(next->take_states(*now).ok());
    }
    now = next;
    ASSERT_TRUE(now->run_on(&stream_, inputs, outputs).ok());
  }
  EXPECT_EQ(device_.copied_in, in);
  EXPECT_EQ(device_.copied_out, out);
  // Four steps of x and two of 2x.
  EXPECT_EQ(x.read(outputs.at(0).data), (Values{8, 16, 24, 32}));
  EXPECT_EQ(now->state(0)->get(1), 16);
  // Who gave its states away has none.
  Executor* without = now == one.get() ? other.get() : one.get();
  EXPECT_FALSE(without->state(0).ok());
  EXPECT_FALSE(without->run_on(nullptr, inputs, outputs).ok());
  // A single one goes to another model's, and not to what is no state or lies elsewhere.
  EXPECT_FALSE(without->take_state(1, *now, 0).ok());
  EXPECT_FALSE(without->take_state(0, *now, 1).ok());
  EXPECT_EQ(now->state(0)->get(1), 16);
  ASSERT_TRUE(without->take_state(0, *now, 0).ok());
  EXPECT_EQ(without->state(0)->get(1), 16);
  EXPECT_FALSE(now->state(0).ok());
  LateDevice elsewhere;
  auto far = load(running_sum("grow", InputKind::kState), elsewhere);
  EXPECT_FALSE(far->take_states(*without).ok());
}

TEST_F(Streams, TheCpuHasNone) {
  auto cpu = make_cpu_device();
  auto executor = load(sum(), *cpu);
  HostTensor w = HostTensor::zeros(DType::kFloat32, {4}).value();
  ASSERT_TRUE(executor->bind_weight(1, w).ok());
  std::vector<TensorRef> inputs = {ref_of(w)};
  std::vector<DeviceTensor> outputs;
  Status status = executor->run_on(&stream_, inputs, outputs);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidInput);
  EXPECT_NE(status.error().message.find("has no streams"), std::string::npos);
  EXPECT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
}

TEST_F(Streams, CallsSayWhatTheyAreAndHowMuchTheyMove) {
  auto executor = load(sum(), device_);
  OnDevice x(device_, {1, 2, 3, 4}), w(device_, {0, 0, 0, 0});
  ASSERT_TRUE(executor->bind_weight(1, w.ref()).ok());
  EXPECT_TRUE(executor->call_facts().empty());
  std::vector<TensorRef> inputs = {x.ref()};
  std::vector<DeviceTensor> outputs;
  std::vector<int64_t> times;
  ASSERT_TRUE(executor->run_on(&stream_, inputs, outputs, &times).ok());
  auto facts = executor->call_facts();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(times.size(), 1u);
  EXPECT_EQ(facts[0].name, "add");
  EXPECT_EQ(facts[0].bytes, 3 * 16);
  EXPECT_EQ(facts[0].fingerprint, digest_of("add"));
}

}  // namespace
}  // namespace common
