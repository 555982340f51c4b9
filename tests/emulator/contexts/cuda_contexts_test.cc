// The device beside other users of CUDA in its process: if these fail, an application finds itself
// on another device after a call, or one GPU's work on another's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/cat.h"
#include "common/process/shared_library.h"
#include "common/runtime/device/devices.h"
#include "common/runtime/machine_class.h"
#include "tests/emulator/contexts/cuda_contexts_testing.h"

namespace common {
namespace {

TEST_F(CudaContextsTest, TheCurrentContextStaysWhatItWas) {
  for (CudaContext before : {CudaContext{nullptr}, second_, first_}) {
    ASSERT_EQ(calls().set_context(before), kCudaSuccess);
    {
      auto opened = open_cuda_device();
      ASSERT_TRUE(opened.ok());
      EXPECT_EQ(current(), before) << "opening";
    }
    DeviceMemory x = memory({1, 2, 3, 4});
    EXPECT_EQ(current(), before) << "memory";
    auto executor = load();
    EXPECT_EQ(current(), before) << "loading";
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (void* stream : {static_cast<void*>(nullptr), static_cast<void*>(stream_)}) {
      std::vector<DeviceTensor> outputs;
      for (int k = 0; k < 5; ++k) {
        Status ran = executor->run_on(stream, inputs, outputs);
        ASSERT_TRUE(ran.ok()) << ran.error().message;
        EXPECT_EQ(current(), before) << "run " << k;
      }
      std::vector<int64_t> times;
      ASSERT_TRUE(executor->run_on(stream, inputs, outputs, &times).ok());
      EXPECT_EQ(current(), before) << "times";
    }
    executor.reset();
    x = {};
    EXPECT_EQ(current(), before) << "freeing";
  }
}

TEST_F(CudaContextsTest, EveryVisibleDeviceCanBeUsed) {
  auto found = find_device("cuda:1");
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->name, "cuda");
  EXPECT_EQ(found->index, 1);
  auto second = open_device("cuda:1", 1);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_NE((*second)->hardware_id(), device_->hardware_id());
  device_ = std::move(*second);
  {
    auto executor = load();
    std::vector<DeviceTensor> outputs;
    DeviceMemory x = memory({1, 2, 3, 4});
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    for (int k = 0; k < 4; ++k) ASSERT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(outputs[0].data), (Values{4, 8, 12, 16}));
  }
  EXPECT_EQ(open_device("cuda:2", 1).error().code, Code::kUnavailable);
  for (const char* name : {"cuda:", "cuda:x", "cuda:1x", "cuda:-1"}) {
    EXPECT_EQ(find_device(name).error().code, Code::kInvalidInput) << name;
  }
}

// An application may hold its contexts in a stack.
TEST_F(CudaContextsTest, FailedCallsLeaveTheContextToo) {
  auto driver = SharedLibrary::open({"libcuda.so.1"});
  CudaResult (*push)(CudaContext) = nullptr;
  CudaResult (*pop)(CudaContext*) = nullptr;
  ASSERT_TRUE((*driver)->find(push, "cuCtxPushCurrent_v2"));
  ASSERT_TRUE((*driver)->find(pop, "cuCtxPopCurrent_v2"));
  ASSERT_EQ(push(first_), kCudaSuccess);
  ASSERT_EQ(push(second_), kCudaSuccess);
  auto executor = load();
  std::vector<DeviceTensor> outputs;
  HostTensor unfit = HostTensor::zeros(DType::kFloat64, {4}).value();
  std::vector<TensorRef> inputs = {ref_of(unfit)};
  EXPECT_FALSE(executor->run_on(stream_, inputs, outputs).ok());
  EXPECT_FALSE(executor->run_on(reinterpret_cast<void*>(&inputs), inputs, outputs).ok());
  EXPECT_FALSE(device_->allocate(size_t{1} << 40).ok());
  EXPECT_FALSE(device_->load(digest_of("none"), as_bytes("no object")).ok());
  EXPECT_FALSE(device_->launch(Launch{}).ok());
  std::byte host{};
  EXPECT_FALSE(device_->copy_out({&host, 1}, &host).ok());
  auto missing = open_cuda_device({.index = 2});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().message, "there is no CUDA device 2, only 2");
  CudaContext top = nullptr;
  ASSERT_EQ(pop(&top), kCudaSuccess);
  EXPECT_EQ(top, second_);
  ASSERT_EQ(pop(&top), kCudaSuccess);
  EXPECT_EQ(top, first_);
  EXPECT_NE(pop(&top), kCudaSuccess) << "a call left a context behind";
}

TEST_F(CudaContextsTest, DevicesWorkAtOnce) {
  auto second = open_device("cuda:1", 1);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(device_->ordinal(), 0);
  EXPECT_EQ((*second)->ordinal(), 1);
  auto work = [](Device& device, float step) {
    auto executor = load(device);
    DeviceMemory x = memory(device, Values(4, step));
    std::vector<int64_t> sizes = {4};
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes, x.data(), x.size(), true}};
    std::vector<DeviceTensor> outputs;
    for (int k = 1; k <= 40; ++k) {
      Status ran = executor->run_on(nullptr, inputs, outputs);
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      // The state before the run, and x.
      ASSERT_EQ(read(device, outputs[0].data), Values(4, step * static_cast<float>(k)));
    }
  };
  std::thread other([&] { work(**second, 3); });
  work(*device_, 2);
  other.join();
}

// In a process of its own: no other test can use the device afterwards.
using CudaContextsDeathTest = CudaContextsTest;
TEST_F(CudaContextsDeathTest, AFaultOfOneDeviceIsNotTheOthers) {
  auto fault = [this] {
    auto second = open_device("cuda:1", 1).value();
    auto module = second->load(digest_of(*object), *object).value();
    DeviceMemory out = memory(*second, Values(4));
    std::vector<void*> buffers = {out.data()};
    Launch wild{module->entry("wild").value(), buffers, {}};
    wild.block = {1, 1, 0};
    bool is_sick =
        second->launch(wild).ok() && second->synchronise().error().code == Code::kDeviceSick;
    bool is_its = second->is_faulted() && !device_->is_faulted() && current() == nullptr;
    bool is_well = read(memory({1, 2, 3, 4}).data()) == Values{1, 2, 3, 4};
    std::_Exit(is_sick && is_its && is_well ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fault(), testing::ExitedWithCode(0), "");
}

TEST_F(CudaContextsTest, EachDeviceHasItsOwnClassAndTarget) {
  std::string first = machine_class_of("cuda", 1), second = machine_class_of("cuda", 1, 1);
  EXPECT_NE(first.find("132 SMs"), std::string::npos) << first;
  EXPECT_NE(second.find("66 SMs"), std::string::npos) << second;
  ::setenv("LFARM_EMULATOR_CAPABILITIES", "90,80", 1);
  EXPECT_EQ(find_device("cuda")->target.name, "cuda-sm_90a");
  EXPECT_EQ(find_device("cuda:1")->target.name, "cuda-sm_80");
  EXPECT_EQ(open_device("cuda:1", 1).value()->target().name, "cuda-sm_80");
  ::unsetenv("LFARM_EMULATOR_CAPABILITIES");
}

// The library's handle goes with its context current, whatever the thread has.
TEST_F(CudaContextsTest, ProductsLeaveTheContextToo) {
  for (CudaContext before : {CudaContext{nullptr}, second_}) {
    ASSERT_EQ(calls().set_context(before), kCudaSuccess);
    auto device = open_cuda_device().value();
    DeviceMemory a = memory(*device, {1, 2, 3, 4}), b = memory(*device, {5, 6, 7, 8});
    DeviceMemory out = memory(*device, Values(4));
    GemmSizes sizes;
    sizes.m = sizes.n = sizes.k = 2;
    sizes.a = sizes.b = sizes.out = {0, 4, 2, 1};
    Status multiplied = device->gemm(sizes, a.data(), b.data(), out.data());
    ASSERT_TRUE(multiplied.ok()) << multiplied.error().message;
    EXPECT_EQ(read(*device, out.data()), (Values{19, 22, 43, 50}));
    for (DeviceMemory* used : {&a, &b, &out}) *used = {};
    device.reset();
    EXPECT_EQ(current(), before);
  }
  ASSERT_EQ(calls().set_context(nullptr), kCudaSuccess);
}

// An application's allocator, which keeps account.
class Ledger {
 public:
  explicit Ledger(const CudaCalls& calls) : calls_(calls) {}
  DeviceAllocator allocator() {
    return {
        [this](size_t bytes, int ordinal, void* stream) { return give(bytes, ordinal, stream); },
        [this](void* data, size_t bytes, int ordinal, void* stream) {
          std::lock_guard lock(mutex_);
          auto entry = reinterpret_cast<CudaAddress>(data) - misplaced_by;
          EXPECT_EQ(out_.at(entry), cat(bytes, " on ", ordinal, " for ", stream));
          out_.erase(entry);
          EXPECT_EQ(calls_.free(entry), kCudaSuccess);
        }};
  }
  size_t out() const { return out_.size(); }
  int given = 0;
  size_t room = size_t{1} << 30;
  CudaAddress misplaced_by = 0;

 private:
  void* give(size_t bytes, int ordinal, void* stream) {
    std::lock_guard lock(mutex_);
    CudaAddress address = 0;
    if (bytes > room || calls_.allocate(&address, bytes) != kCudaSuccess) return nullptr;
    EXPECT_NE(stream, nullptr);
    ++given;
    out_[address] = cat(bytes, " on ", ordinal, " for ", stream);
    return reinterpret_cast<void*>(address + misplaced_by);  // NOLINT(performance-no-int-to-ptr)
  }
  const CudaCalls& calls_;
  std::mutex mutex_;
  std::map<CudaAddress, std::string> out_;
};

TEST_F(CudaContextsTest, MemoryComesFromTheCallersAllocator) {
  Ledger ledger(calls());
  auto opened = open_device("cuda:1", 1, ledger.allocator());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Device& device = **opened;
  {
    auto executor = load(device);
    DeviceMemory x = memory(device, {1, 2, 3, 4});
    const size_t before = ledger.out();
    std::vector<TensorRef> inputs = {{DType::kFloat32, sizes_, x.data(), x.size(), true}};
    std::vector<DeviceTensor> outputs;
    for (int k = 0; k < 4; ++k) ASSERT_TRUE(executor->run_on(nullptr, inputs, outputs).ok());
    EXPECT_EQ(read(device, outputs[0].data), (Values{4, 8, 12, 16}));
    EXPECT_GT(ledger.out(), before);
    EXPECT_EQ(ledger.given, static_cast<int>(ledger.out()))
        << "memory was given back and asked for";
    { DeviceMemory passing = memory(device, {1}); }
    EXPECT_EQ(ledger.given, static_cast<int>(ledger.out()) + 1) << "freed memory was kept";
    ledger.room = 1000;
    auto large = device.allocate(5000);
    ASSERT_FALSE(large.ok());
    EXPECT_EQ(large.error().code, Code::kUnavailable);
    EXPECT_EQ(large.error().message, "no room for 5000 bytes of device memory");
    ledger.misplaced_by = 32;
    EXPECT_EQ(device.allocate(64).error().code, Code::kInvalidInput);
    ledger.misplaced_by = 0;
  }
  EXPECT_EQ(ledger.out(), 0u);
  EXPECT_EQ(current(), nullptr);
}

}  // namespace
}  // namespace common
