// lfarm's C interface for C++17: handles that free themselves, and errors that are thrown.
#pragma once

#include <lfarm.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lfarm {

// What a failed function left: one line that says what, where and what to do.
class Error : public std::runtime_error {
 public:
  Error(lfarm_status status, const char* message) : std::runtime_error(message), status_(status) {}
  lfarm_status status() const { return status_; }

 private:
  lfarm_status status_;
};

namespace detail {

template <auto free>
struct Free {
  template <class Handle>
  void operator()(Handle* handle) const {
    free(handle);
  }
};
template <class Handle, auto free>
using Owner = std::unique_ptr<Handle, Free<free>>;

// Calls `f(&error)` and throws what it left.
template <class Call>
void check(Call&& f) {
  lfarm_error* error = nullptr;
  if (f(&error) == LFARM_OK) return;
  Owner<lfarm_error, lfarm_error_free> owner(error);
  throw Error(lfarm_error_status(error), lfarm_error_message(error));
}

template <class T>
struct TypeOf;
#define LFARM_TYPE(type, code, bits)                   \
  template <>                                          \
  struct TypeOf<type> {                                \
    static constexpr lfarm_dtype value{code, bits, 1}; \
  }
LFARM_TYPE(std::int8_t, 0, 8);
LFARM_TYPE(std::int16_t, 0, 16);
LFARM_TYPE(std::int32_t, 0, 32);
LFARM_TYPE(std::int64_t, 0, 64);
LFARM_TYPE(std::uint8_t, 1, 8);
LFARM_TYPE(float, 2, 32);
LFARM_TYPE(double, 2, 64);
LFARM_TYPE(bool, 6, 8);
#undef LFARM_TYPE

}  // namespace detail

struct Options : lfarm_options {
  Options() { lfarm_options_init(this); }
};

// Device memory of the application's: see lfarm_allocator, whose members these are.
struct Allocator {
  std::function<void*(std::size_t bytes, int device, void* stream)> allocate;
  std::function<void(void* data, std::size_t bytes, int device, void* stream)> release;
};

// A row-major view of the caller's memory, which stays where it is during the call.
class Tensor {
 public:
  template <class T>
  Tensor(T* data, std::vector<std::int64_t> shape)
      : data_(data), dtype_(detail::TypeOf<T>::value), shape_(std::move(shape)) {}
  // The same for memory of a GPU's.
  template <class T>
  static Tensor on_gpu(T* data, std::vector<std::int64_t> shape, int device = 0) {
    Tensor tensor(data, std::move(shape));
    tensor.device_ = {2, device};
    return tensor;
  }

 private:
  friend class Instance;
  friend class Model;
  lfarm_tensor view() {
    return {data_,   device_, static_cast<std::int32_t>(shape_.size()), dtype_, shape_.data(),
            nullptr, 0};
  }
  void* data_;
  lfarm_device device_{1, 0};
  lfarm_dtype dtype_;
  std::vector<std::int64_t> shape_;
};

// What a call returned; the memory goes with it.
class Outputs {
 public:
  Outputs() = default;  // of no call yet
  std::size_t size() const { return lfarm_outputs_count(handle_.get()); }
  // Null where the model returns None.
  const lfarm_tensor* operator[](std::size_t index) const {
    return lfarm_outputs_get(handle_.get(), index);
  }
  // The elements of an output whose type is T; throws std::invalid_argument for another.
  template <class T>
  const T* data(std::size_t index) const {
    const lfarm_tensor* tensor = (*this)[index];
    constexpr lfarm_dtype type = detail::TypeOf<T>::value;
    if (tensor == nullptr || tensor->dtype.code != type.code || tensor->dtype.bits != type.bits) {
      throw std::invalid_argument("output " + std::to_string(index) + " is of another type");
    }
    return static_cast<const T*>(tensor->data);
  }

 private:
  friend class Instance;
  detail::Owner<lfarm_outputs, lfarm_outputs_free> handle_;
};

// One running copy of a model with its state; one thread at a time.
class Instance {
 public:
  Outputs operator()(std::vector<Tensor> inputs) {
    Outputs outputs;
    run(std::move(inputs), outputs);
    return outputs;
  }
  // The same into what an earlier call gave, whose memory is used again.
  void run(std::vector<Tensor> inputs, Outputs& outputs) {
    fill(inputs, outputs, [&](const lfarm_tensor* views, lfarm_outputs** out, lfarm_error** error) {
      return lfarm_instance_run(handle_.get(), views, inputs.size(), out, error);
    });
  }
  // The same in the device's memory, on a CUstream unless it is null: see lfarm_instance_run_on.
  void run_on(void* stream, std::vector<Tensor> inputs, Outputs& outputs) {
    fill(inputs, outputs, [&](const lfarm_tensor* views, lfarm_outputs** out, lfarm_error** error) {
      return lfarm_instance_run_on(handle_.get(), stream, views, inputs.size(), out, error);
    });
  }
  // Outputs for run_on() in the caller's memory, one tensor for each value: see lfarm_outputs_wrap.
  Outputs wrap(std::vector<Tensor> values) {
    std::vector<lfarm_tensor> views;
    for (Tensor& value : values) views.push_back(value.view());
    lfarm_outputs* outputs = nullptr;
    detail::check([&](lfarm_error** error) {
      return lfarm_outputs_wrap(handle_.get(), views.data(), views.size(), &outputs, error);
    });
    Outputs wrapped;
    wrapped.handle_.reset(outputs);
    return wrapped;
  }
  // Random numbers of later calls begin with the seed's first ones: see lfarm_instance_seed.
  void seed(std::uint64_t seed) {
    detail::check(
        [&](lfarm_error** error) { return lfarm_instance_seed(handle_.get(), seed, error); });
  }
  // Permits later calls to write the memory of these inputs: see lfarm_instance_donate.
  void donate(const std::vector<std::size_t>& inputs) {
    detail::check([&](lfarm_error** error) {
      return lfarm_instance_donate(handle_.get(), inputs.data(), inputs.size(), error);
    });
  }
  // A copy of a state as the last call left it, as output 0, and another content for it: see
  // lfarm_instance_state and lfarm_instance_set_state.
  Outputs state(const std::string& name) {
    lfarm_outputs* content = nullptr;
    detail::check([&](lfarm_error** error) {
      return lfarm_instance_state(handle_.get(), name.c_str(), &content, error);
    });
    Outputs copy;
    copy.handle_.reset(content);
    return copy;
  }
  void set_state(const std::string& name, Tensor tensor) {
    lfarm_tensor view = tensor.view();
    detail::check([&](lfarm_error** error) {
      return lfarm_instance_set_state(handle_.get(), name.c_str(), &view, error);
    });
  }
  // Calls `profiler` after every call from now on; an empty one: no more. It must not throw.
  void set_profiler(std::function<void(const lfarm_profile&)> profiler) {
    using Function = std::function<void(const lfarm_profile&)>;
    bool is_empty = !profiler;
    auto next = std::make_unique<Function>(std::move(profiler));
    lfarm_profiler tell = [](void* context, const lfarm_profile* profile) {
      (*static_cast<Function*>(context))(*profile);
    };
    lfarm_instance_set_profiler(handle_.get(), is_empty ? nullptr : tell, next.get());
    profiler_ = std::move(next);
  }
  // Waits until calls run a plan; throws when none comes in time.
  void wait(std::int64_t timeout_ms) {
    detail::check(
        [&](lfarm_error** error) { return lfarm_instance_wait(handle_.get(), timeout_ms, error); });
  }
  // The id of the plan that calls run; empty while the interpreter computes them.
  std::string plan() const {
    lfarm_plan plan{};
    plan.size = sizeof plan;
    return lfarm_instance_plan(handle_.get(), &plan) != 0 ? plan.id : "";
  }

 private:
  friend class Model;
  explicit Instance(lfarm_instance* handle) : handle_(handle) {}
  template <class Run>
  static void fill(std::vector<Tensor>& inputs, Outputs& outputs, Run&& run) {
    std::vector<lfarm_tensor> views;
    for (Tensor& input : inputs) views.push_back(input.view());
    lfarm_outputs* handle = outputs.handle_.release();
    detail::Owner<lfarm_outputs, lfarm_outputs_free> owner;
    detail::check([&](lfarm_error** error) {
      lfarm_status status = run(views.data(), &handle, error);
      owner.reset(handle);
      return status;
    });
    outputs.handle_ = std::move(owner);
  }
  std::unique_ptr<std::function<void(const lfarm_profile&)>> profiler_;  // outlives the handle
  detail::Owner<lfarm_instance, lfarm_instance_free> handle_;
};

class Model {
 public:
  std::string graph_hash() const { return lfarm_model_graph_hash(handle_.get()); }
  std::size_t inputs() const { return lfarm_model_inputs(handle_.get()); }
  std::size_t outputs() const { return lfarm_model_outputs(handle_.get()); }
  // Content for a weight or state of later instances: see lfarm_model_bind.
  void bind(const std::string& name, Tensor tensor) {
    lfarm_tensor view = tensor.view();
    detail::check([&](lfarm_error** error) {
      return lfarm_model_bind(handle_.get(), name.c_str(), &view, error);
    });
  }
  void bind_file(const std::string& path) {
    detail::check([&](lfarm_error** error) {
      return lfarm_model_bind_file(handle_.get(), path.c_str(), error);
    });
  }
  Instance instance() const {
    lfarm_instance* instance = nullptr;
    detail::check([&](lfarm_error** error) {
      return lfarm_instance_create(handle_.get(), &instance, error);
    });
    return Instance(instance);
  }

 private:
  friend class Session;
  explicit Model(lfarm_model* handle) : handle_(handle) {}
  detail::Owner<lfarm_model, lfarm_model_free> handle_;
};

// Where plans come from and what they run on; any thread may use it.
class Session {
 public:
  explicit Session(const Options& options = Options()) { open(options, nullptr); }
  // With memory of the application's, whose functions live as long as anything of the session.
  Session(const Options& options, Allocator allocator) {
    lfarm_allocator hook{};
    hook.size = sizeof hook;
    hook.context = new Allocator(std::move(allocator));
    hook.allocate = [](void* context, std::size_t bytes, std::int32_t device, void* stream) {
      return static_cast<Allocator*>(context)->allocate(bytes, device, stream);
    };
    hook.release = [](void* context, void* data, std::size_t bytes, std::int32_t device,
                      void* stream) {
      static_cast<Allocator*>(context)->release(data, bytes, device, stream);
    };
    hook.destroy = [](void* context) { delete static_cast<Allocator*>(context); };
    open(options, &hook);
  }
  Model load(const std::string& path) {
    lfarm_model* model = nullptr;
    detail::check([&](lfarm_error** error) {
      return lfarm_model_load(handle_.get(), path.c_str(), &model, error);
    });
    return Model(model);
  }
  // By a graph's hash, with names from a signature file unless it is empty: see lfarm_model_find.
  Model find(const std::string& graph_hash, const std::string& signature = "") {
    lfarm_model* model = nullptr;
    const char* names = signature.empty() ? nullptr : signature.c_str();
    detail::check([&](lfarm_error** error) {
      return lfarm_model_find(handle_.get(), graph_hash.c_str(), names, &model, error);
    });
    return Model(model);
  }

 private:
  void open(const Options& options, const lfarm_allocator* allocator) {
    lfarm_session* session = nullptr;
    detail::check([&](lfarm_error** error) {
      return lfarm_session_open_with(&options, allocator, &session, error);
    });
    handle_.reset(session);
  }
  detail::Owner<lfarm_session, lfarm_session_free> handle_;
};

}  // namespace lfarm
