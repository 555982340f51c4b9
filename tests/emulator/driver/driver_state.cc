#include "tests/emulator/driver/driver_state.h"

namespace emulator {
namespace {

constexpr size_t kPendingMax = 1024;  // a driver's queue is bounded too

}  // namespace

Driver& driver() {
  static auto* instance = new Driver;
  return *instance;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

Context* current_context() { return context_stack().empty() ? nullptr : context_stack().back(); }

Executor& executor() { return current_context()->executor; }

Context* find_context(void* handle) {
  for (Context& context : driver().contexts) {
    if (&context == handle) return &context;
  }
  return nullptr;
}

void destroy(Context* context) {
  Driver& d = driver();
  const auto is_its = [&](const auto& entry) { return entry.second->context == context; };
  for (auto& [handle, stream] : d.streams) {
    if (stream->context == context) context->executor.drain(*stream);
  }
  std::erase_if(d.streams, is_its);
  std::erase_if(d.events, is_its);
  std::erase_if(d.modules, is_its);
  context->null_stream = Stream();
  context->executor.memory.clear();
}

CaptureMode& capture_mode() {
  thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

Call::Call(Needs needs) : lock_(driver().mutex) {
  if (needs == Needs::kNothing) return;
  if (!driver().is_initialised) {
    error = kNotInitialized;
  } else if (needs == Needs::kContext && current_context() == nullptr) {
    error = kInvalidContext;
  } else if (needs == Needs::kContext && current_context()->retained == 0) {
    error = kContextIsDestroyed;
  } else if (needs == Needs::kContext) {
    error = executor().sticky();
  }
}

Call::Call(int device) : Call(Needs::kDevice) {
  const auto count = static_cast<int>(driver().devices.size());
  if (error == kSuccess && (device < 0 || device >= count)) error = kInvalidDevice;
}

int counted(const char* name) {
  ++driver().calls[name];
  return kSuccess;
}

Stream* find_stream(void* handle) {
  // The driver's other name for the default stream, CU_STREAM_LEGACY.
  const bool is_default = reinterpret_cast<uintptr_t>(handle) <= 1;
  if (!is_default) return find(driver().streams, handle);
  Stream& stream = current_context()->null_stream;
  stream.context = current_context();
  return &stream;
}

int refuse_in_capture() {
  if (capture_mode() == CaptureMode::kRelaxed) return kSuccess;
  for (auto& [handle, stream] : driver().streams) {
    if (!stream->capture || stream->mode == CaptureMode::kRelaxed) continue;
    const bool is_mine = stream->capturer == std::this_thread::get_id();
    const bool is_local =
        stream->mode == CaptureMode::kThreadLocal || capture_mode() == CaptureMode::kThreadLocal;
    if (is_local && !is_mine) continue;
    stream->is_capture_invalid = true;
    return kCaptureUnsupported;
  }
  return kSuccess;
}

int drain_all() {
  Driver& d = driver();
  for (auto& [handle, stream] : d.streams) {
    if (stream->context == current_context()) executor().drain(*stream);
  }
  return executor().sticky();
}

// Work for a stream: into its graph while it captures, at once on the null stream, else later.
int issue(void* handle, Operation operation) {
  Driver& d = driver();
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->context != current_context()) return kInvalidContext;
  const Function* function = operation.function;
  if (function != nullptr && function->context != stream->context) return kInvalidHandle;
  if (stream == &stream->context->null_stream) {
    for (auto& [key, other] : d.streams) {
      if (!other->is_blocking || other->context != stream->context) continue;
      if (other->capture) {
        other->is_capture_invalid = true;
        return kCaptureImplicit;
      }
      if (int error = executor().drain(*other); error != 0) return error;
    }
    return executor().perform(operation);
  }
  if (stream->capture) {
    if (stream->is_capture_invalid) return kCaptureInvalidated;
    stream->capture->operations.push_back(std::move(operation));
    return kSuccess;
  }
  stream->pending.push_back(std::move(operation));
  while (stream->pending.size() > kPendingMax) executor().step(*stream);
  return executor().sticky();
}

// Work that is done when the call returns.
int issue_and_wait(Operation operation) {
  if (int error = refuse_in_capture(); error != 0) return error;
  const int error = issue(nullptr, std::move(operation));
  executor().memory.close();
  return error;
}

}  // namespace emulator
