// liblfarm on tensors of the GPU's and on its caller's streams: if these fail, applications that
// keep their data on the device get wrong answers, or pay for copies through the host.
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "clients/runtime/c_tensor.h"
#include "clients/runtime/include/lfarm.hpp"
#include "common/cuda/driver.h"
#include "tests/farm/library_testing.h"

namespace {

using cli_testing::take;
using clients::CallResult;
using common::CudaAddress;
using common::CudaStream;
using common::HostTensor;
using common::Result;
using common::Status;

// An application's own use of the GPU, in the context that liblfarm uses, too.
class Gpu {
 public:
  explicit Gpu(int ordinal = 0) : driver_(common::CudaDriver::open().value()), ordinal_(ordinal) {
    EXPECT_EQ(calls().retain_context(&context_, ordinal), common::kCudaSuccess);
    enter();
    for (CudaStream& stream : streams_) {
      EXPECT_EQ(calls().create_stream(&stream, common::kCudaStreamNonBlocking),
                common::kCudaSuccess);
    }
  }
  ~Gpu() {
    for (auto& [address, size] : memory_) calls().free(address);
    for (CudaStream stream : streams_) calls().destroy_stream(stream);
    calls().release_context(ordinal_);
  }
  void enter() const { EXPECT_EQ(calls().set_context(context_), common::kCudaSuccess); }
  bool is_current() const {
    common::CudaContext now = nullptr;
    return calls().get_context(&now) == common::kCudaSuccess && now == context_;
  }
  const common::CudaCalls& calls() const { return driver_->calls(); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  CudaStream stream(size_t k) const { return streams_[k % 2]; }
  void* allocate(size_t bytes) {
    CudaAddress address = 0;
    EXPECT_EQ(calls().allocate(&address, std::max<size_t>(bytes, 1)), common::kCudaSuccess);
    memory_[address] = bytes;
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  }
  void* upload(common::ByteView bytes, CudaStream stream) {
    void* data = allocate(bytes.size());
    if (!bytes.empty()) {
      EXPECT_EQ(
          calls().copy_in(reinterpret_cast<CudaAddress>(data), bytes.data(), bytes.size(), stream),
          common::kCudaSuccess);
    }
    return data;
  }
  // Waits for this stream alone.
  void download(std::span<std::byte> to, const void* data, CudaStream stream) {
    if (!to.empty()) {
      EXPECT_EQ(calls().copy_out(to.data(), reinterpret_cast<CudaAddress>(data), to.size(), stream),
                common::kCudaSuccess);
    }
    EXPECT_EQ(calls().synchronise_stream(stream), common::kCudaSuccess);
  }

 private:
  std::shared_ptr<const common::CudaDriver> driver_;
  int ordinal_;
  common::CudaContext context_ = nullptr;
  CudaStream streams_[2] = {};
  std::map<CudaAddress, size_t> memory_;
};

// Runs the library on the GPU's memory, behind the interface that cases are run by. Streams take
// turns with none, so that every call has to find what the one before left.
class GpuInstance final : public clients::Instance {
 public:
  GpuInstance(std::shared_ptr<const clients::Model> model, lfarm_instance* handle, Gpu* gpu)
      : model_(std::move(model)), handle_(handle), gpu_(gpu) {}
  ~GpuInstance() override {
    lfarm_outputs_free(outputs_);
    lfarm_instance_free(handle_);
  }
  GpuInstance(const GpuInstance&) = delete;
  GpuInstance& operator=(const GpuInstance&) = delete;

  Result<CallResult> call(std::span<const HostTensor> user_inputs) override {
    CudaStream stream = gpu_->stream(calls_);
    std::vector<lfarm_tensor> tensors;
    std::vector<size_t> place;
    std::vector<std::vector<int64_t>> shapes(user_inputs.size());
    for (size_t i = 0; i < user_inputs.size(); ++i) {
      if (model_->user_inputs[i] < 0) continue;
      lfarm_tensor tensor =
          clients::to_c(user_inputs[i], model_->user_input_is_complex[i], &shapes[i]);
      tensor.data = gpu_->upload(user_inputs[i].bytes(), stream);
      tensor.device = {2, 0};
      tensors.push_back(tensor);
      place.push_back(i);
    }
    // Without a stream of its own a call does not wait for the caller's.
    if (calls_ % 3 == 2) gpu_->download({}, nullptr, stream);
    lfarm_error* error = nullptr;
    if (lfarm_instance_run_on(handle_, calls_ % 3 == 2 ? nullptr : stream, tensors.data(),
                              tensors.size(), &outputs_, &error) != LFARM_OK) {
      return common::invalid_input(take(error));
    }
    ++calls_;
    CallResult out;
    for (size_t i = 0; i < lfarm_outputs_count(outputs_); ++i) {
      const lfarm_tensor* tensor = lfarm_outputs_get(outputs_, i);
      if (tensor == nullptr) {
        out.outputs.emplace_back();
        continue;
      }
      EXPECT_EQ(tensor->device.type, 2);
      out.outputs.emplace_back(fetch(*tensor, stream));
    }
    for (const common::GraphOutput& output : model_->graph.outputs) {
      for (size_t i = 0; i < place.size(); ++i) {
        if (output.kind == common::OutputKind::kMutate &&
            model_->user_inputs[place[i]] == output.input) {
          HostTensor content = user_inputs[place[i]].clone().value();
          gpu_->download(content.mutable_bytes(), tensors[i].data, stream);
          out.mutated.emplace_back(static_cast<int>(place[i]), content);
        }
      }
    }
    return out;
  }
  Result<HostTensor> state(int) override { return common::unsupported("not asked for"); }
  Status set_state(int, const HostTensor&) override { return common::unsupported("not asked for"); }

 private:
  HostTensor fetch(const lfarm_tensor& tensor, CudaStream stream) const {
    clients::TakenTensor taken;
    auto ref = clients::take_c(tensor, tensor.dtype.code == 5, tensor.device.id, &taken).value();
    HostTensor out =
        HostTensor::uninitialized(ref.dtype, {ref.sizes.begin(), ref.sizes.end()}).value();
    gpu_->download(out.mutable_bytes(), tensor.data, stream);
    return out;
  }

  std::shared_ptr<const clients::Model> model_;
  lfarm_instance* handle_;
  Gpu* gpu_;
  lfarm_outputs* outputs_ = nullptr;
  size_t calls_ = 0;
};

class CudaLibrary : public cli_testing::LibraryTest {
 protected:
  void expect_pass(const std::string& name, lfarm_session* session, bool is_planned) {
    LibraryTest::expect_pass(name, session, is_planned, [this](auto given, auto* handle) {
      return new GpuInstance(std::move(given), handle, &gpu_);
    });
  }

  Gpu gpu_;
};

TEST_F(CudaLibrary, TheInterpreterAnswersOnTheGpuToo) {
  lfarm_session* session = open(0, "cuda");
  for (const char* name : {"mlp", "kv_step"}) expect_pass(name, session, false);
  lfarm_session_free(session);
}

TEST_F(CudaLibrary, PlansRunOnTheCallersStreamsAndMemory) {
  cli_testing::Invocation up = start({"up", "--device", "cuda", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  lfarm_session* session = open(600'000, "cuda");
  for (const char* name : {"mlp", "mlp_dynamic", "kv_step"}) expect_pass(name, session, true);

  // Outputs in the caller's memory, weights from the caller's memory.
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  std::vector<float> data(3 * 16, 0.5F);
  int64_t shape[2] = {3, 16};
  lfarm_tensor input{gpu_.upload(std::as_bytes(std::span(data)), gpu_.stream(0)),
                     {2, 0},
                     2,
                     {2, 32, 1},
                     shape,
                     nullptr,
                     0};
  lfarm_outputs* outputs = nullptr;
  lfarm_error* error = nullptr;
  auto run = [&](lfarm_instance* on, lfarm_outputs** to) {
    EXPECT_EQ(lfarm_instance_run_on(on, gpu_.stream(0), &input, 1, to, &error), LFARM_OK)
        << take(error);
    const lfarm_tensor* value = lfarm_outputs_get(*to, 0);
    std::vector<float> result(static_cast<size_t>(value->shape[0] * value->shape[1]));
    gpu_.download(std::as_writable_bytes(std::span(result)), value->data, gpu_.stream(0));
    return result;
  };
  std::vector<float> expected = run(instance, &outputs);
  const lfarm_tensor* own = lfarm_outputs_get(outputs, 0);
  int64_t sizes[2] = {own->shape[0], own->shape[1]};
  lfarm_tensor mine{
      gpu_.allocate(expected.size() * sizeof(float)), {2, 0}, 2, {2, 32, 1}, sizes, nullptr, 0};
  lfarm_outputs* wrapped = nullptr;
  ASSERT_EQ(lfarm_outputs_wrap(instance, &mine, 1, &wrapped, &error), LFARM_OK) << take(error);
  // As often as it takes to record the calls and replay them.
  for (int k = 0; k < 4; ++k) EXPECT_EQ(run(instance, &wrapped), expected);
  EXPECT_EQ(lfarm_outputs_get(wrapped, 0)->data, mine.data);
  EXPECT_EQ(lfarm_instance_run(instance, &input, 1, &wrapped, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("not used for each other"), std::string::npos);
  mine.shape[1] = sizes[1] + 1;
  lfarm_outputs* unfit = nullptr;
  ASSERT_EQ(lfarm_outputs_wrap(instance, &mine, 1, &unfit, &error), LFARM_OK);
  EXPECT_EQ(lfarm_instance_run_on(instance, nullptr, &input, 1, &unfit, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("output 0: f32["), std::string::npos);
  lfarm_outputs_free(unfit);

  // Another bias, from the device and from the host: the same for both, and not what it was.
  auto file = clients::load_model(model("mlp")).value();
  size_t bias = 0;
  while (file.weight_names[bias] != "b.bias") ++bias;
  std::vector<float> moved(static_cast<size_t>(file.weights[bias]->sizes[0]));
  std::memcpy(moved.data(), clients::contiguous_view(*file.weights[bias]).data(),
              moved.size() * sizeof(float));
  for (float& value : moved) value += 1;
  lfarm_tensor weight{gpu_.upload(std::as_bytes(std::span(moved)), gpu_.stream(0)),
                      {2, 0},
                      1,
                      {2, 32, 1},
                      file.weights[bias]->sizes.data(),
                      nullptr,
                      0};
  gpu_.download({}, nullptr, gpu_.stream(0));
  ASSERT_EQ(lfarm_model_bind(loaded, "b.bias", &weight, &error), LFARM_OK) << take(error);
  lfarm_instance* other = instance_of(loaded);
  lfarm_outputs* others = nullptr;
  std::vector<float> after = run(other, &others);
  EXPECT_NE(after, expected);
  weight.data = moved.data();
  weight.device = {1, 0};
  ASSERT_EQ(lfarm_model_bind(loaded, "b.bias", &weight, &error), LFARM_OK) << take(error);
  lfarm_instance* third = instance_of(loaded);
  EXPECT_EQ(run(third, &others), after);
  EXPECT_EQ(run(instance, &outputs), expected) << "an instance keeps the weights it was made with";

  for (lfarm_outputs* each : {outputs, wrapped, others}) lfarm_outputs_free(each);
  lfarm_instance_free(instance);
  lfarm_instance_free(other);
  lfarm_instance_free(third);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// A run on a stream is not waited for, so that the next call tells.
TEST_F(CudaLibrary, AnIndexThatIsOutOfRangeIsReportedOnce) {
  cli_testing::Invocation up = start({"up", "--device", "cuda", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  lfarm_session* session = open(120'000, "cuda");
  lfarm_model* loaded = load(session, "kv_step");
  lfarm_instance* instance = instance_of(loaded);
  CudaStream stream = gpu_.stream(0);
  std::vector<float> data(32, 0.5F);
  int64_t shape[3] = {1, 1, 32}, one = 1, position = 99999;
  lfarm_tensor inputs[2] = {{gpu_.upload(std::as_bytes(std::span(data)), stream),
                             {2, 0},
                             3,
                             {2, 32, 1},
                             shape,
                             nullptr,
                             0},
                            {nullptr, {2, 0}, 1, {0, 64, 1}, &one, nullptr, 0}};
  void* wrong = gpu_.upload(std::as_bytes(std::span(&position, 1)), stream);
  gpu_.download({}, nullptr, stream);
  position = 0;
  void* right = gpu_.upload(std::as_bytes(std::span(&position, 1)), stream);
  gpu_.download({}, nullptr, stream);
  lfarm_outputs* outputs = nullptr;
  lfarm_error* error = nullptr;
  auto run_on = [&](void* at, CudaStream on) {
    inputs[1].data = at;
    return lfarm_instance_run_on(instance, on, inputs, 2, &outputs, &error);
  };
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(run_on(right, stream), LFARM_OK) << take(error);
    // The flag of a call that is not waited for is there when it ends, or at the next call.
    bool is_late = run_on(wrong, stream) == LFARM_OK;
    if (is_late) {
      gpu_.download({}, nullptr, stream);
      EXPECT_EQ(run_on(right, stream), LFARM_OUT_OF_RANGE);
    }
    std::string message = take(error);
    EXPECT_EQ(message.rfind(is_late ? "an earlier call: input 1 ('" : "input 1 ('", 0), 0u)
        << message;
    EXPECT_NE(message.find("index at position 0 is outside of [0, "), std::string::npos) << message;
    EXPECT_EQ(run_on(right, stream), LFARM_OK) << take(error);
    gpu_.download({}, nullptr, stream);
    EXPECT_EQ(run_on(wrong, nullptr), LFARM_OUT_OF_RANGE) << "this one was waited for";
    EXPECT_EQ(take(error).rfind("input 1 ('", 0), 0u);
  }
  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// As PyTorch captures: no thread may do what is not safe meanwhile.
class LibraryCapture {
 public:
  LibraryCapture(const Gpu& gpu, CudaStream stream) : calls_(gpu.calls()), stream_(stream) {
    EXPECT_EQ(calls_.begin_capture(stream, 0), common::kCudaSuccess);
  }
  // Null when the capture was broken.
  common::CudaGraphExec end() {
    common::CudaGraph graph = nullptr;
    EXPECT_EQ(calls_.end_capture(stream_, &graph), common::kCudaSuccess);
    common::CudaGraphExec made = nullptr;
    if (graph != nullptr) calls_.instantiate_graph(&made, graph, 0);
    return made;
  }

 private:
  const common::CudaCalls& calls_;
  CudaStream stream_;
};

TEST_F(CudaLibrary, CallsGoIntoCapturesOnEveryGpu) {
  cli_testing::Invocation up = start({"up", "--device", "cuda", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  Gpu second(1);
  for (Gpu* gpu : {&gpu_, &second}) {
    const int ordinal = gpu == &second ? 1 : 0;
    gpu->enter();
    CudaStream stream = gpu->stream(0);
    lfarm_session* session = open(600'000, ordinal == 1 ? "cuda:1" : "cuda");
    lfarm_model* loaded = load(session, "mlp");
    lfarm_instance* instance = instance_of(loaded);
    ASSERT_EQ(lfarm_instance_plan(instance, nullptr), 1);
    EXPECT_TRUE(gpu->is_current());
    std::vector<float> data(3 * 16, 0.5F);
    int64_t shape[2] = {3, 16};
    lfarm_tensor input{gpu->upload(std::as_bytes(std::span(data)), stream),
                       {2, ordinal},
                       2,
                       {2, 32, 1},
                       shape,
                       nullptr,
                       0};
    lfarm_outputs* outputs = nullptr;
    lfarm_error* error = nullptr;
    {
      LibraryCapture capture(*gpu, stream);
      EXPECT_NE(lfarm_instance_run_on(instance, stream, &input, 1, &outputs, &error), LFARM_OK);
      EXPECT_FALSE(take(error).empty());
      EXPECT_TRUE(gpu->is_current());
      EXPECT_NE(capture.end(), nullptr) << "a call that cannot be captured broke the capture";
    }
    auto result = [&](const lfarm_tensor& value) {
      std::vector<float> host(static_cast<size_t>(value.shape[0] * value.shape[1]));
      gpu->download(std::as_writable_bytes(std::span(host)), value.data, stream);
      return host;
    };
    ASSERT_EQ(lfarm_instance_run_on(instance, stream, &input, 1, &outputs, &error), LFARM_OK)
        << take(error);
    const lfarm_tensor own = *lfarm_outputs_get(outputs, 0);
    EXPECT_EQ(own.device.id, ordinal);
    const std::vector<float> first = result(own);
    lfarm_tensor mine = own;
    mine.data = gpu->allocate(first.size() * sizeof(float));
    lfarm_outputs* wrapped = nullptr;
    ASSERT_EQ(lfarm_outputs_wrap(instance, &mine, 1, &wrapped, &error), LFARM_OK) << take(error);
    LibraryCapture capture(*gpu, stream);
    EXPECT_EQ(lfarm_instance_run_on(instance, stream, &input, 1, &wrapped, &error), LFARM_OK)
        << take(error);
    common::CudaGraphExec graph = capture.end();
    ASSERT_NE(graph, nullptr);
    for (float value : {0.5F, -2.0F, 3.0F}) {
      std::fill(data.begin(), data.end(), value);
      EXPECT_EQ(gpu->calls().copy_in(reinterpret_cast<CudaAddress>(input.data), data.data(),
                                     data.size() * sizeof(float), stream),
                common::kCudaSuccess);
      EXPECT_EQ(gpu->calls().launch_graph(graph, stream), common::kCudaSuccess);
      std::vector<float> replayed = result(mine);
      EXPECT_EQ(replayed == first, value == 0.5F);
      ASSERT_EQ(lfarm_instance_run_on(instance, stream, &input, 1, &outputs, &error), LFARM_OK);
      EXPECT_EQ(replayed, result(own));
    }
    gpu->calls().destroy_graph_exec(graph);
    input.device.id = 1 - ordinal;
    EXPECT_EQ(lfarm_instance_run_on(instance, stream, &input, 1, &outputs, &error), LFARM_INVALID);
    EXPECT_NE(take(error).find("but the session runs on GPU"), std::string::npos);
    lfarm_outputs_free(outputs);
    lfarm_outputs_free(wrapped);
    lfarm_instance_free(instance);
    lfarm_model_free(loaded);
    lfarm_session_free(session);
    EXPECT_TRUE(gpu->is_current());
  }
  gpu_.enter();
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// Memory of the application's, which is gone once it is given back.
class PlainMemory {
 public:
  explicit PlainMemory(const Gpu& gpu) : calls_(gpu.calls()) {}
  lfarm_allocator functions() {
    lfarm_allocator out{};
    out.size = sizeof out;
    out.context = this;
    out.allocate = [](void* context, size_t bytes, int32_t, void*) {
      CudaAddress address = 0;
      EXPECT_EQ(static_cast<PlainMemory*>(context)->calls_.allocate(&address, bytes),
                common::kCudaSuccess);
      return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    };
    out.release = [](void* context, void* data, size_t, int32_t, void*) {
      static_cast<PlainMemory*>(context)->calls_.free(reinterpret_cast<CudaAddress>(data));
    };
    return out;
  }

 private:
  const common::CudaCalls& calls_;
};

// A plan that calls leave, here because its farm has revoked it, stays as long as the instance.
TEST_F(CudaLibrary, GraphsOutliveThePlanOfTheirCalls) {
  cli_testing::Invocation up = start({"up", "--device", "cuda", "--workers", "1"});
  ASSERT_TRUE(up.until_out("farm at ")) << up.err();
  lfarm_options wanted = options(600'000, "cuda");
  wanted.revocations_ms = 20;
  PlainMemory memory(gpu_);
  lfarm_allocator allocator = memory.functions();
  lfarm_session* session = nullptr;
  lfarm_error* error = nullptr;
  ASSERT_EQ(lfarm_session_open_with(&wanted, &allocator, &session, &error), LFARM_OK);
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  CudaStream stream = gpu_.stream(0);
  std::vector<float> data(3 * 16, 0.5F), first(3 * 4), later(3 * 4);
  int64_t shape[2] = {3, 16}, out_shape[2] = {3, 4};
  lfarm_tensor input{gpu_.upload(std::as_bytes(std::span(data)), stream),
                     {2, 0},
                     2,
                     {2, 32, 1},
                     shape,
                     nullptr,
                     0};
  lfarm_tensor mine{gpu_.allocate(48), {2, 0}, 2, {2, 32, 1}, out_shape, nullptr, 0};
  lfarm_outputs* outputs = nullptr;
  ASSERT_EQ(lfarm_outputs_wrap(instance, &mine, 1, &outputs, &error), LFARM_OK) << take(error);
  auto run = [&] { return lfarm_instance_run_on(instance, stream, &input, 1, &outputs, &error); };
  ASSERT_EQ(run(), LFARM_OK) << take(error);
  gpu_.download(std::as_writable_bytes(std::span(first)), mine.data, stream);
  LibraryCapture capture(gpu_, stream);
  EXPECT_EQ(run(), LFARM_OK) << take(error);
  common::CudaGraphExec graph = capture.end();
  ASSERT_NE(graph, nullptr);
  lfarm_plan plan{};
  plan.size = sizeof plan;
  ASSERT_EQ(lfarm_instance_plan(instance, &plan), 1);
  cli_testing::Invocation revoke = start({"cache", "revoke", std::string(plan.id)});
  ASSERT_EQ(revoke.wait(), 0) << revoke.err();
  const std::string id = plan.id;
  auto has_left = [&] { return lfarm_instance_plan(instance, &plan) == 0 || plan.id != id; };
  for (int k = 0; k < 3000 && !has_left(); ++k) {
    ASSERT_EQ(run(), LFARM_OK) << take(error);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(has_left());
  EXPECT_EQ(gpu_.calls().launch_graph(graph, stream), common::kCudaSuccess);
  gpu_.download(std::as_writable_bytes(std::span(later)), mine.data, stream);
  EXPECT_EQ(later, first);
  gpu_.calls().destroy_graph_exec(graph);
  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
  up.signal(SIGTERM);
  EXPECT_EQ(up.wait(), 0) << up.err();
}

// The interpreter's calls wait for the device, which no capture can.
TEST_F(CudaLibrary, TheInterpreterLeavesCapturesWhole) {
  lfarm_session* session = open(0, "cuda");
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  std::vector<float> data(3 * 16, 0.5F);
  int64_t shape[2] = {3, 16};
  lfarm_tensor input{gpu_.upload(std::as_bytes(std::span(data)), gpu_.stream(0)),
                     {2, 0},
                     2,
                     {2, 32, 1},
                     shape,
                     nullptr,
                     0};
  lfarm_outputs* outputs = nullptr;
  lfarm_error* error = nullptr;
  LibraryCapture capture(gpu_, gpu_.stream(0));
  EXPECT_EQ(lfarm_instance_run_on(instance, gpu_.stream(0), &input, 1, &outputs, &error),
            LFARM_INVALID);
  EXPECT_NE(take(error).find("cannot be captured"), std::string::npos);
  EXPECT_NE(capture.end(), nullptr);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
}

// Through the C++ interface, whose functions end with the session's last object.
TEST_F(CudaLibrary, ApplicationsGiveTheMemory) {
  std::map<void*, size_t> out;
  int given = 0;
  auto alive = std::make_shared<int>(0);
  {
    lfarm::Allocator allocator;
    allocator.allocate = [&, alive](size_t bytes, int device, void*) {
      EXPECT_EQ(device, 0);
      CudaAddress address = 0;
      EXPECT_EQ(gpu_.calls().allocate(&address, bytes), common::kCudaSuccess);
      ++given;
      void* data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
      out[data] = bytes;
      return data;
    };
    allocator.release = [&](void* data, size_t bytes, int, void*) {
      EXPECT_EQ(out.at(data), bytes);
      out.erase(data);
      gpu_.calls().free(reinterpret_cast<CudaAddress>(data));
    };
    lfarm::Options options;
    std::string state = path("state");
    options.state = state.c_str();
    options.device = "cuda";
    options.deadline_ms = 0;
    lfarm::Session session(options, std::move(allocator));
    lfarm::Instance instance = session.load(model("mlp")).instance();
    std::vector<float> data(3 * 16, 0.5F);
    std::vector<lfarm::Tensor> inputs = {lfarm::Tensor::on_gpu(
        static_cast<float*>(gpu_.upload(std::as_bytes(std::span(data)), gpu_.stream(0))), {3, 16})};
    gpu_.download({}, nullptr, gpu_.stream(0));
    lfarm::Outputs outputs;
    instance.run_on(nullptr, inputs, outputs);
    EXPECT_GT(given, 0);
    auto* mine = static_cast<float*>(gpu_.allocate(3 * 16 * sizeof(float)));
    lfarm::Outputs wrapped = instance.wrap({lfarm::Tensor::on_gpu(mine, {3, 4})});
    instance.run_on(nullptr, inputs, wrapped);
    EXPECT_EQ(wrapped.data<float>(0), mine);
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(alive.use_count(), 1) << "the application's functions were not let go";
  lfarm_allocator half{sizeof half, nullptr, nullptr, nullptr, nullptr};
  lfarm_session* session = nullptr;
  lfarm_error* error = nullptr;
  EXPECT_EQ(lfarm_session_open_with(nullptr, &half, &session, &error), LFARM_INVALID);
  EXPECT_EQ(take(error), "an allocator needs both allocate and release");
}

TEST_F(CudaLibrary, TheCpuHasNeitherStreamsNorTheGpusMemory) {
  lfarm_session* session = open(0, "cpu");
  lfarm_model* loaded = load(session, "mlp");
  lfarm_instance* instance = instance_of(loaded);
  std::vector<float> data(3 * 16, 0.5F);
  int64_t shape[2] = {3, 16};
  lfarm_tensor input{data.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
  lfarm_outputs* outputs = nullptr;
  lfarm_error* error = nullptr;
  EXPECT_EQ(lfarm_instance_run_on(instance, gpu_.stream(0), &input, 1, &outputs, &error),
            LFARM_INVALID);
  EXPECT_NE(take(error).find("has no streams"), std::string::npos);
  input.device = {2, 0};
  EXPECT_EQ(lfarm_instance_run_on(instance, nullptr, &input, 1, &outputs, &error), LFARM_INVALID);
  EXPECT_NE(take(error).find("session's device is the CPU"), std::string::npos);
  // Without a stream it is one more way to run.
  input.device = {1, 0};
  EXPECT_EQ(lfarm_instance_run_on(instance, nullptr, &input, 1, &outputs, &error), LFARM_OK);
  EXPECT_EQ(lfarm_outputs_get(outputs, 0)->device.type, 1);
  lfarm_outputs_free(outputs);
  lfarm_instance_free(instance);
  lfarm_model_free(loaded);
  lfarm_session_free(session);
}

}  // namespace
