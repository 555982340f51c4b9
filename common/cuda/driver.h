// The CUDA driver, found at run time: one build of lfarm runs with and without a GPU, so that the
// few functions it needs are declared here and nothing is linked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace common {

// As cuda.h has them. Handles are the driver's; a CudaAddress is of a device's memory.
using CudaResult = int;
using CudaOrdinal = int;
using CudaAddress = unsigned long long;
using CudaContext = struct CudaContextTag*;
using CudaModule = struct CudaModuleTag*;
using CudaFunction = struct CudaFunctionTag*;
using CudaStream = struct CudaStreamTag*;
using CudaEvent = struct CudaEventTag*;
using CudaGraph = struct CudaGraphTag*;
using CudaGraphExec = struct CudaGraphExecTag*;
using CudaGraphNode = struct CudaGraphNodeTag*;
struct CudaUuid {
  std::array<unsigned char, 16> bytes;
};
struct CudaUpdateInfo {
  int result;
  void* node;
  void* from_node;
};
struct CudaLaunchAttribute {
  int id;
  int padding;
  union {
    int value;
    char bytes[64];
  };
};
struct CudaLaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  CudaStream stream;
  CudaLaunchAttribute* attributes;
  unsigned attribute_count;
};
// What a kernel's copies of tensors read; the driver alone knows the words.
struct alignas(64) CudaTensorMap {
  std::array<uint64_t, 16> words{};
  friend bool operator==(const CudaTensorMap&, const CudaTensorMap&) = default;
};
struct CudaKernelNode {
  CudaFunction function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CudaContext context;
};
struct CudaFillNode {
  CudaAddress to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
// One side of a copy between boxes of memory.
struct CudaCopySide {
  size_t x_bytes, y, z, level;
  int memory_type;
  void* host;
  CudaAddress device;
  void* array;
  void* reserved;
  size_t pitch, height;
};
struct CudaCopyNode {
  CudaCopySide from, to;
  size_t width_bytes, height, depth;
};

inline constexpr CudaResult kCudaSuccess = 0, kCudaOutOfMemory = 2;
// Of cuModuleLoadDataEx: where it writes what is wrong with a text, and how much room is there.
inline constexpr int kCudaErrorLog = 5, kCudaErrorLogBytes = 6;
// Of cuFuncSetAttribute.
inline constexpr int kCudaMaxDynamicSharedBytes = 8;
// Of cuStreamCreate: who uses the default stream in this process does not wait for this one.
inline constexpr unsigned kCudaStreamNonBlocking = 1;
// Of cuLaunchKernelEx: the kernel may begin while the one before it in the stream runs.
inline constexpr int kCudaProgrammaticSerialization = 6;
// The first driver that keeps this in graphs.
inline constexpr int kCudaProgrammaticGraphs = 12030;
// Of cuGraphNodeGetType.
inline constexpr int kCudaKernelNode = 0, kCudaCopyNode = 1, kCudaFillNode = 2;
// Of cuStreamBeginCapture: other threads go on as if nothing were captured.
inline constexpr int kCudaCaptureThreadLocal = 1;
// Of cuThreadExchangeStreamCaptureMode: the thread does as it likes, whatever is captured.
inline constexpr int kCudaCaptureRelaxed = 2;
// Of cuStreamIsCapturing.
inline constexpr int kCudaCaptureNone = 0, kCudaCaptureActive = 1;

// The driver's functions under their own names' words; the arguments are CUDA's.
struct CudaCalls {
  CudaResult (*init)(unsigned) = nullptr;
  CudaResult (*driver_version)(int*) = nullptr;
  CudaResult (*error_name)(CudaResult, const char**) = nullptr;
  CudaResult (*error_string)(CudaResult, const char**) = nullptr;
  CudaResult (*device_count)(int*) = nullptr;
  CudaResult (*device_get)(CudaOrdinal*, int) = nullptr;
  CudaResult (*device_name)(char*, int, CudaOrdinal) = nullptr;
  CudaResult (*device_uuid)(CudaUuid*, CudaOrdinal) = nullptr;
  CudaResult (*device_total_memory)(size_t*, CudaOrdinal) = nullptr;
  CudaResult (*device_attribute)(int*, int, CudaOrdinal) = nullptr;
  CudaResult (*retain_context)(CudaContext*, CudaOrdinal) = nullptr;
  CudaResult (*release_context)(CudaOrdinal) = nullptr;
  CudaResult (*get_context)(CudaContext*) = nullptr;
  CudaResult (*set_context)(CudaContext) = nullptr;
  CudaResult (*load_module)(CudaModule*, const void*, unsigned option_count, int* options,
                            void** values) = nullptr;
  CudaResult (*unload_module)(CudaModule) = nullptr;
  CudaResult (*get_function)(CudaFunction*, CudaModule, const char*) = nullptr;
  CudaResult (*set_function_attribute)(CudaFunction, int, int) = nullptr;
  CudaResult (*launch_kernel)(CudaFunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, CudaStream, void** parameters,
                              void** extra) = nullptr;
  CudaResult (*launch_kernel_with)(const CudaLaunchConfig*, CudaFunction, void** parameters,
                                   void** extra) = nullptr;
  // Sizes and boxes in elements, strides in bytes and without the first dimension's.
  CudaResult (*encode_tensor_map)(CudaTensorMap*, int data_type, uint32_t rank, void* first,
                                  const uint64_t* sizes, const uint64_t* strides,
                                  const uint32_t* box, const uint32_t* steps, int interleave,
                                  int swizzle, int l2_promotion, int fill) = nullptr;
  // Of windows: the corners are the first and the last window's distance from the first and the
  // last element, without the first and the last dimension.
  CudaResult (*encode_window_map)(CudaTensorMap*, int data_type, uint32_t rank, void* first,
                                  const uint64_t* sizes, const uint64_t* strides,
                                  const int* lower_corner, const int* upper_corner,
                                  uint32_t channels, uint32_t pixels, const uint32_t* steps,
                                  int interleave, int swizzle, int l2_promotion,
                                  int fill) = nullptr;
  CudaResult (*allocate)(CudaAddress*, size_t) = nullptr;
  CudaResult (*free)(CudaAddress) = nullptr;
  CudaResult (*allocate_host)(void**, size_t, unsigned) = nullptr;
  CudaResult (*free_host)(void*) = nullptr;
  CudaResult (*copy_in)(CudaAddress, const void*, size_t, CudaStream) = nullptr;
  CudaResult (*copy_out)(void*, CudaAddress, size_t, CudaStream) = nullptr;
  CudaResult (*copy)(CudaAddress, CudaAddress, size_t, CudaStream) = nullptr;
  CudaResult (*fill)(CudaAddress, unsigned char, size_t, CudaStream) = nullptr;
  CudaResult (*create_stream)(CudaStream*, unsigned) = nullptr;
  CudaResult (*destroy_stream)(CudaStream) = nullptr;
  CudaResult (*synchronise_stream)(CudaStream) = nullptr;
  CudaResult (*create_event)(CudaEvent*, unsigned) = nullptr;
  CudaResult (*record_event)(CudaEvent, CudaStream) = nullptr;
  CudaResult (*synchronise_event)(CudaEvent) = nullptr;
  CudaResult (*wait_event)(CudaStream, CudaEvent, unsigned) = nullptr;
  CudaResult (*elapsed_ms)(float*, CudaEvent, CudaEvent) = nullptr;
  CudaResult (*destroy_event)(CudaEvent) = nullptr;
  CudaResult (*is_capturing)(CudaStream, int* status) = nullptr;
  CudaResult (*exchange_capture_mode)(int* mode) = nullptr;
  CudaResult (*begin_capture)(CudaStream, int) = nullptr;
  CudaResult (*end_capture)(CudaStream, CudaGraph*) = nullptr;
  CudaResult (*capture_info)(CudaStream, int* status, uint64_t* id, CudaGraph*,
                             const CudaGraphNode** last, size_t* count) = nullptr;
  CudaResult (*dependencies)(CudaGraphNode, CudaGraphNode*, size_t*) = nullptr;
  CudaResult (*node_type)(CudaGraphNode, int*) = nullptr;
  CudaResult (*get_kernel_node)(CudaGraphNode, CudaKernelNode*) = nullptr;
  CudaResult (*set_kernel_node)(CudaGraphExec, CudaGraphNode, const CudaKernelNode*) = nullptr;
  CudaResult (*get_fill_node)(CudaGraphNode, CudaFillNode*) = nullptr;
  CudaResult (*set_fill_node)(CudaGraphExec, CudaGraphNode, const CudaFillNode*,
                              CudaContext) = nullptr;
  CudaResult (*get_copy_node)(CudaGraphNode, CudaCopyNode*) = nullptr;
  CudaResult (*set_copy_node)(CudaGraphExec, CudaGraphNode, const CudaCopyNode*,
                              CudaContext) = nullptr;
  CudaResult (*instantiate_graph)(CudaGraphExec*, CudaGraph, unsigned long long) = nullptr;
  CudaResult (*update_graph)(CudaGraphExec, CudaGraph, CudaUpdateInfo*) = nullptr;
  CudaResult (*launch_graph)(CudaGraphExec, CudaStream) = nullptr;
  CudaResult (*destroy_graph)(CudaGraph) = nullptr;
  CudaResult (*destroy_graph_exec)(CudaGraphExec) = nullptr;
};

// What the driver says of a device without touching it.
struct CudaDeviceFacts {
  CudaOrdinal ordinal = 0;
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // 32 hexadecimal digits
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int threads_per_block_max = 0;
  int64_t blocks_max = 0;  // of one launch, in x
  int64_t shared_bytes_per_block_max = 0;
  int64_t l2_bytes = 0;
  int64_t memory_bytes = 0;
};

// How code for a device of this compute capability is called: "sm_90a", "sm_89". Suffixed where
// the architecture has instructions that only its own code may use and that generated code does.
std::string cuda_architecture(int major, int minor);

// "13.0" of 13000.
std::string cuda_version_text(int version);

// Thread-safe, as the driver is.
class CudaDriver {
 public:
  // The driver, ready to be asked about devices; makes no context. kUnavailable says what is
  // missing: the library, or what it complained of. Not for a process that forks without exec.
  static Result<std::shared_ptr<const CudaDriver>> open();

  const CudaCalls& calls() const { return calls_; }
  // The newest CUDA that it knows, as in 13000; 0 when it does not say.
  int version_number() const;
  // The same as in "13.0".
  std::string version() const;
  Result<int> device_count() const;
  // kUnavailable when there is no such device; $CUDA_VISIBLE_DEVICES numbers them.
  Result<CudaDeviceFacts> device(int index) const;

  // Success, or CUDA's own name and text for the error after `what` was tried. kDeviceSick for
  // errors after which this process cannot use the device any more, kUnavailable for want of
  // memory, kUnsupported for what the device refused to do.
  Status check(CudaResult result, const char* what) const;

 private:
  CudaDriver() = default;
  CudaCalls calls_;
};

// Leaves visible, to this process and those that it starts, only number `index` of the devices that
// $CUDA_VISIBLE_DEVICES shows. To be called before the driver is opened and while no other thread
// runs. kInvalidInput when the variable lists fewer.
Status show_one_cuda_device(int index);

// Whether a kernel's own doing (an illegal address, say) ended the context with this error.
bool is_kernel_fault(CudaResult result);
// Whether every later call in this process fails as well: a kernel's fault, or the hardware's.
bool is_sticky(CudaResult result);

}  // namespace common
