// The driver API of the emulated device: memory, streams and events. Signatures are those
// of the public interface, with handles as untyped pointers.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "tests/emulator/driver/driver_state.h"

namespace emulator {
namespace {

bool is_device_range(uint64_t address, size_t bytes) {
  return executor().memory.host_view(address, bytes) != nullptr;
}

bool is_pinned(const void* host, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(host);
  return std::any_of(driver().pinned.begin(), driver().pinned.end(), [&](const auto& entry) {
    return address >= entry.first && address + bytes <= entry.first + entry.second.size();
  });
}

Operation copy_in(uint64_t to, const void* from, size_t bytes) {
  Operation op;
  op.kind = Operation::Kind::kCopyIn;
  op.to = to;
  op.host_from = from;
  op.bytes = bytes;
  return op;
}

Operation copy_out(void* to, uint64_t from, size_t bytes) {
  Operation op;
  op.kind = Operation::Kind::kCopyOut;
  op.host_to = to;
  op.from = from;
  op.bytes = bytes;
  return op;
}

Operation copy(uint64_t to, uint64_t from, size_t bytes) {
  Operation op;
  op.kind = Operation::Kind::kCopy;
  op.to = to;
  op.from = from;
  op.bytes = bytes;
  return op;
}

Operation fill(uint64_t to, uint8_t value, size_t bytes) {
  Operation op;
  op.kind = Operation::Kind::kFill;
  op.to = to;
  op.value = value;
  op.bytes = bytes;
  return op;
}

// A stream that a call waits for; kSuccess when it may.
int may_wait(Stream* stream) {
  if (stream == nullptr) return kInvalidHandle;
  if (!stream->capture) return refuse_in_capture();
  stream->is_capture_invalid = true;
  return kCaptureUnsupported;
}

// After the host has waited it must not follow device addresses.
int waited(int error) {
  executor().memory.close();
  return error;
}

// Of the device whose stream it is, which need not be the current one.
Executor& executor_of(const Stream& stream) { return stream.context->executor; }

// Enters the driver for `bytes` at each of the device's `addresses`, of which none is nothing to
// do.
template <class Work>
int on_memory(std::initializer_list<uint64_t> addresses, size_t bytes, Work work) {
  Call call;
  if (call.error != 0 || bytes == 0) return call.error;
  for (uint64_t address : addresses) {
    if (!is_device_range(address, bytes)) return kInvalidValue;
  }
  return work();
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

// --- memory ---

LF_API cuMemGetInfo_v2(size_t* free, size_t* total) {
  Call call;
  if (call.error != 0) return call.error;
  *free = executor().memory.free_bytes();
  *total = Memory::total_bytes();
  return kSuccess;
}

LF_API cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Call call;
  if (call.error != 0) return call.error;
  if (bytes == 0) return kInvalidValue;
  if (int error = refuse_in_capture(); error != 0) return error;
  *address = executor().memory.allocate(bytes);
  return *address == 0 ? kOutOfMemory : counted("cuMemAlloc");
}

LF_API cuMemFree_v2(uint64_t address) {
  Call call;
  if (call.error != 0) return call.error;
  if (address == 0) return kSuccess;
  if (int error = refuse_in_capture(); error != 0) return error;
  if (int error = drain_all(); error != 0) return error;
  return executor().memory.release(address) ? kSuccess : kInvalidValue;
}

LF_API cuMemAllocHost_v2(void** host, size_t bytes) {
  Call call;
  if (call.error != 0) return call.error;
  if (int error = refuse_in_capture(); error != 0) return error;
  std::vector<std::byte> memory(bytes);
  *host = memory.data();
  driver().pinned[reinterpret_cast<uintptr_t>(memory.data())] = std::move(memory);
  return kSuccess;
}

LF_API cuMemHostAlloc(void** host, size_t bytes, unsigned) {
  return cuMemAllocHost_v2(host, bytes);
}

LF_API cuMemFreeHost(void* host) {
  Call call;
  if (call.error != 0) return call.error;
  if (int error = refuse_in_capture(); error != 0) return error;
  if (int error = drain_all(); error != 0) return error;
  return driver().pinned.erase(reinterpret_cast<uintptr_t>(host)) == 1 ? kSuccess : kInvalidValue;
}

LF_API cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  return on_memory({to}, bytes, [&] { return issue_and_wait(copy_in(to, from, bytes)); });
}

LF_API cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  return on_memory({from}, bytes, [&] { return issue_and_wait(copy_out(to, from, bytes)); });
}

LF_API cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
  return on_memory({to, from}, bytes, [&] { return issue_and_wait(copy(to, from, bytes)); });
}

LF_API cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count) {
  return on_memory({to}, count, [&] { return issue_and_wait(fill(to, value, count)); });
}

LF_API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return on_memory({to}, bytes, [&] {
    Operation op = copy_in(to, from, bytes);
    const Stream* target = find_stream(stream);
    // Ordinary memory is read before the call returns, pinned memory and a graph's when it happens.
    if (target != nullptr && !target->capture && !is_pinned(from, bytes)) {
      const auto* begin = static_cast<const std::byte*>(from);
      op.staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    }
    return issue(stream, std::move(op));
  });
}

LF_API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return on_memory({from}, bytes, [&] {
    Stream* target = find_stream(stream);
    const int error = issue(stream, copy_out(to, from, bytes));
    // Ordinary memory is written before the call returns.
    if (error != 0 || target->capture || is_pinned(to, bytes)) return error;
    return waited(executor_of(*target).drain(*target));
  });
}

LF_API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return on_memory({to, from}, bytes, [&] { return issue(stream, copy(to, from, bytes)); });
}

LF_API cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void* stream) {
  return on_memory({to}, count, [&] { return issue(stream, fill(to, value, count)); });
}

// --- streams and events ---

LF_API cuStreamCreate(void** stream, unsigned flags) {
  constexpr unsigned kNonBlocking = 1;
  Call call;
  if (call.error != 0) return call.error;
  if ((flags & ~kNonBlocking) != 0) return kInvalidValue;
  auto created = std::make_unique<Stream>();
  created->is_blocking = (flags & kNonBlocking) == 0;
  created->context = current_context();
  *stream = keep(driver().streams, std::move(created));
  return kSuccess;
}

LF_API cuStreamDestroy_v2(void* stream) {
  Call call;
  if (call.error != 0) return call.error;
  Stream* found = find(driver().streams, stream);
  if (found == nullptr) return kInvalidHandle;
  const int error = executor_of(*found).drain(*found);
  for (auto& [handle, event] : driver().events) {
    if (event->stream == found) event->stream = nullptr;
  }
  driver().streams.erase(stream);
  return error;
}

LF_API cuStreamSynchronize(void* stream) {
  Call call;
  if (call.error != 0) return call.error;
  Stream* found = find_stream(stream);
  if (int error = may_wait(found); error != 0) return error;
  if (stream != nullptr) return waited(executor_of(*found).drain(*found));
  for (auto& [handle, other] : driver().streams) {
    if (other->is_blocking && other->context == current_context()) executor().drain(*other);
  }
  return waited(executor().sticky());
}

// Every question lets the device do one thing more, so that whoever polls gets there.
LF_API cuStreamQuery(void* stream) {
  Call call;
  if (call.error != 0) return call.error;
  Stream* found = find_stream(stream);
  if (int error = may_wait(found); error != 0) return error;
  if (found->pending.empty()) return waited(kSuccess);
  const int error = executor_of(*found).step(*found);
  return error != 0 ? error : kNotReady;
}

LF_API cuEventCreate(void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2;
  Call call;
  if (call.error != 0) return call.error;
  auto created = std::make_unique<RecordedEvent>();
  created->event->has_timing = (flags & kDisableTiming) == 0;
  created->context = current_context();
  *event = keep(driver().events, std::move(created));
  return kSuccess;
}

LF_API cuEventDestroy_v2(void* event) {
  Call call;
  if (call.error != 0) return call.error;
  return driver().events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

LF_API cuEventRecord(void* event, void* stream) {
  Call call;
  if (call.error != 0) return call.error;
  RecordedEvent* recorded = find(driver().events, event);
  Stream* found = find_stream(stream);
  if (recorded == nullptr || found == nullptr) return kInvalidHandle;
  if (recorded->context != found->context) return kInvalidHandle;
  recorded->stream = found;
  recorded->event->is_captured = found->capture != nullptr;
  if (found->capture) return kSuccess;  // an order among nodes, which a line of nodes has anyway
  Operation op;
  op.kind = Operation::Kind::kRecord;
  op.event = recorded->event;
  ++op.event->pending;
  return issue(stream, std::move(op));
}

LF_API cuEventSynchronize(void* event) {
  Call call;
  if (call.error != 0) return call.error;
  RecordedEvent* recorded = find(driver().events, event);
  if (recorded == nullptr) return kInvalidHandle;
  if (recorded->event->is_captured) return kCapturedEvent;
  if (recorded->stream == nullptr) return kSuccess;
  if (int error = refuse_in_capture(); error != 0) return error;
  return waited(executor_of(*recorded->stream).drain_until(*recorded->stream, *recorded->event));
}

LF_API cuEventQuery(void* event) {
  Call call;
  if (call.error != 0) return call.error;
  RecordedEvent* recorded = find(driver().events, event);
  if (recorded == nullptr) return kInvalidHandle;
  if (recorded->event->is_captured) return kCapturedEvent;
  if (int error = refuse_in_capture(); error != 0) return error;
  if (recorded->event->pending == 0) return waited(kSuccess);
  const int error = executor_of(*recorded->stream).step(*recorded->stream);
  return error != 0 ? error : kNotReady;
}

LF_API cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  Call call;
  if (call.error != 0) return call.error;
  RecordedEvent* first = find(driver().events, begin);
  RecordedEvent* second = find(driver().events, end);
  if (first == nullptr || second == nullptr) return kInvalidHandle;
  for (const RecordedEvent* e : {first, second}) {
    if (e->event->is_captured) return kCapturedEvent;
    if (e->event->pending != 0) return kNotReady;
    if (!e->event->has_timing || !e->event->is_recorded) return kInvalidHandle;
  }
  *milliseconds = static_cast<float>(second->event->time_ns - first->event->time_ns) * 1e-6F;
  return kSuccess;
}

LF_API cuEventElapsedTime_v2(float* milliseconds, void* begin, void* end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

// Waiting at once is one of the orders that a device may choose.
LF_API cuStreamWaitEvent(void* stream, void* event, unsigned) {
  Call call;
  if (call.error != 0) return call.error;
  RecordedEvent* recorded = find(driver().events, event);
  Stream* found = find_stream(stream);
  if (recorded == nullptr || found == nullptr) return kInvalidHandle;
  // What happens outside of a capture cannot be waited for within; the attempt ends it.
  if (found->capture && !recorded->event->is_captured) {
    found->is_capture_invalid = true;
    return kCaptureIsolation;
  }
  if (found->capture || recorded->event->is_captured) return kCaptureUnsupported;
  if (recorded->stream == nullptr) return kSuccess;
  return executor_of(*recorded->stream).drain_until(*recorded->stream, *recorded->event);
}

// --- errors ---

namespace {

struct ErrorText {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kIllegalInstruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kGraphUpdateFailed, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints"},
};

}  // namespace

LF_API cuGetErrorName(int code, const char** name) {
  for (const ErrorText& error : kErrors) {
    if (error.code != code) continue;
    *name = error.name;
    return kSuccess;
  }
  *name = nullptr;
  return kInvalidValue;
}

LF_API cuGetErrorString(int code, const char** text) {
  for (const ErrorText& error : kErrors) {
    if (error.code != code) continue;
    *text = error.text;
    return kSuccess;
  }
  *text = nullptr;
  return kInvalidValue;
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
