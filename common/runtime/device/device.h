// The seam between a plan and the machine that runs it: everything that runs plans knows devices by
// this interface only, so that a GPU joins as one more implementation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/plan/plan.h"

namespace common {

// Every buffer that a kernel gets starts at a multiple of this many bytes.
inline constexpr size_t kBufferAlignment = 64;

// By counters, the blocks of a kernel learn which of them is the last to finish.
inline constexpr size_t kCounterBytes = 4;

// An entry of a loaded object. Valid while its module is held.
struct Function {
  const void* handle = nullptr;
};

// A loaded object; unloaded when the last holder goes.
class Module {
 public:
  virtual ~Module() = default;
  // kCorrupt when the object has no such entry.
  virtual Result<Function> entry(const std::string& name) const = 0;
};

// What a device has learnt of a launch that is made again and again. Whoever keeps it makes one
// launch with it at a time, and a new one where sizes change.
struct LaunchHistory {
  int timed = 0;       // launches that were timed
  double unit_ns = 0;  // the least that a unit took in one of them, on one processor
};

// A tensor map of a launch that is made again and again, kept as LaunchHistory is: `encoded` is
// what the device made of it for `buffer`.
struct BoundTensorMap {
  TensorMapSizes sizes;
  const void* buffer = nullptr;
  std::array<uint64_t, 16> encoded{};
};

// A kernel's maps at a call's sizes; `input_bytes` gives an input's size. Errors as of evaluate().
Result<std::vector<BoundTensorMap>> bind_tensor_maps(
    std::span<const TensorMap> maps, std::span<const int64_t> symbols,
    const std::function<int64_t(int input)>& input_bytes);

// One kernel launch over units [0, units). Pointers are read before the launch call returns on a
// device that runs in order with the host, else before the next synchronise().
struct Launch {
  Function function;
  std::span<void* const> buffers;  // inputs, then outputs, in device memory
  std::span<const int64_t> symbols;
  int64_t units = 1;
  // Device memory: areas of scratch_stride bytes, one a block; without blocks concurrency() areas.
  // In front of the areas of blocks lie as many counters of kCounterBytes, the first one last,
  // which are 0 before and after every launch.
  std::byte* scratch = nullptr;
  size_t scratch_stride = 0;
  BlockShape block = {};
  bool waits = false;                // see EntryPoint
  LaunchHistory* history = nullptr;  // may be null
  bool is_alone = false;             // on the calling thread, of a device whose threads share
  std::span<BoundTensorMap> maps = {};
};

// A GemmForm for concrete sizes; strides and offsets in elements.
struct GemmOperandSizes {
  int64_t offset = 0, batch_stride = 0, row_stride = 0, column_stride = 0;
};
struct GemmSizes {
  DType dtype = DType::kFloat32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  GemmOperandSizes a, b, out;
  int algorithm = 0;      // see PlanKernel; of no meaning to a library that lists none
  bool is_alone = false;  // see Launch
};
GemmSizes evaluate(const GemmForm& form, std::span<const int64_t> symbols);
// kCorrupt unless sizes are not negative and every element that the product touches lies inside its
// operand's memory, which holds that many elements.
Status check_bounds(const GemmSizes& sizes, int64_t a_elements, int64_t b_elements,
                    int64_t out_elements);

// Marks points in the device's stream of work. Marks are set in order, from 0.
class Timer {
 public:
  virtual ~Timer() = default;
  virtual void mark() = 0;
  // Synchronises; nanoseconds between neighbouring marks since the last call, one less than marks.
  virtual Result<std::vector<int64_t>> take_intervals_ns() = 0;
};

// A row of launches that a device can do again as one piece.
class Recording {
 public:
  virtual ~Recording() = default;
};

class Device;

// Memory of a device, freed on destruction. The device outlives it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device* device, std::byte* data, size_t size)
      : device_(device), data_(data), size_(size) {}
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void swap(DeviceMemory& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Launches, products and copies run in the order of the calls; several threads may call at once,
// each for buffers of its own.
class Device {
 public:
  virtual ~Device() = default;
  // What plans must be made for to run here.
  virtual const Target& target() const = 0;
  // Whether the device reads and writes ordinary host memory, so that nothing need be copied.
  virtual bool uses_host_memory() const = 0;
  // Among the GPUs that this process sees, of a device with memory of its own.
  virtual int ordinal() const { return 0; }
  // Scratch areas that one launch may use at once.
  virtual int concurrency() const = 0;

  // Loads machine code; compiles nothing. Objects that are loaded already are shared by digest,
  // which the caller vouches for. kCorrupt when the bytes are no object of this device.
  virtual Result<std::shared_ptr<Module>> load(const Digest& digest, ByteView object) = 0;
  // Uninitialised memory, aligned to kBufferAlignment at least. kUnavailable when there is no room.
  virtual Result<DeviceMemory> allocate(size_t bytes) = 0;
  // The same, all zero. A host's large memory takes no room before it is written.
  virtual Result<DeviceMemory> allocate_zeros(size_t bytes);
  // `host` may be read until the next synchronise().
  virtual Status copy_in(std::byte* device, ByteView host) = 0;
  virtual Status copy_out(std::span<std::byte> host, const std::byte* device) = 0;
  // The same without waiting: in order with launches, into memory of allocate_host(), which is
  // written at the latest when the next synchronise() returns.
  virtual Status copy_out_later(std::byte* host, const std::byte* device, size_t bytes) {
    return copy_out({host, bytes}, device);
  }
  // Host memory that copies reach without the host's help. The device outlives it.
  virtual Result<std::shared_ptr<std::byte[]>> allocate_host(size_t bytes);
  virtual Status copy(std::byte* to, const std::byte* from, size_t bytes) = 0;
  virtual Status fill(std::byte* device, std::byte value, size_t bytes) = 0;

  virtual Status launch(const Launch& launch) = 0;
  // kUnavailable when has_gemm() is false. Operands don't overlap the result.
  virtual Status gemm(const GemmSizes& sizes, const void* a, const void* b, void* out) = 0;
  virtual bool has_gemm() const = 0;
  // Waits for everything launched. kDeviceSick when any of it failed.
  virtual Status synchronise() = 0;
  // What the calling thread launches, copies and waits for until end_stream() goes to a stream of
  // the caller's, a CUstream of the GPU's primary context: after all that came before, and before
  // all that comes later. Threads that use the device wait meanwhile. kInvalidInput on devices that
  // have no streams.
  virtual Status begin_stream(void* stream);
  virtual Status end_stream() { return {}; }
  // Whether that stream is being captured by the caller: launches and copies go into the caller's
  // graph, nothing runs, nothing can be waited for, and allocate() gives what is kept at most.
  virtual bool is_capturing() const { return false; }
  // Whether begin_stream() with this stream would find it captured.
  virtual Result<bool> is_captured(void* stream);
  // For at most `marks` marks between two take_intervals_ns().
  virtual std::unique_ptr<Timer> make_timer(size_t marks) = 0;

  // Whether rows of launches are worth recording; where not, record() and replay() are not called.
  virtual bool can_record() const { return false; }
  // Keeps what `row` launches, with the pointers and sizes it passes, and runs none of it. `row`
  // calls launch(), gemm() and copy() alone, for kernels that ran before. `recording`, where there
  // is one, is brought up to date, at less cost than launching all when few pointers changed.
  // Replays that are under way stay as they were. Any error leaves it null.
  virtual Status record(const std::function<Status()>& row, std::unique_ptr<Recording>& recording);
  // Launches all that was recorded, in order.
  virtual Status replay(Recording& recording);

  // Of the largest cache that flush_caches() replaces; 0 where it does nothing.
  virtual size_t cache_bytes() const { return 0; }
  // Lets what follows find the caches as a run among other work would; nothing where runs always
  // do. In order with launches.
  virtual Status flush_caches() { return {}; }
  // Whether a kernel's own fault, such as an illegal address, has made the device useless to this
  // process.
  virtual bool is_faulted() const { return false; }
  // What slows the device down now that is not this process's work, such as heat; mostly empty.
  virtual std::string slowdown() const { return {}; }
  // Launches so far that waited long for one of their threads, because the kernel ran something
  // else on its processor; 0 on devices without threads of the host.
  virtual uint64_t stalls() const { return 0; }
  // Tells pieces of hardware of one kind apart; empty where there is but one.
  virtual std::string hardware_id() const { return {}; }

 private:
  friend class DeviceMemory;
  virtual void release(std::byte* data, size_t size) = 0;
};

inline DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->release(data_, size_);
}

}  // namespace common
