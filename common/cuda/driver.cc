#include "common/cuda/driver.h"

#include <cstdlib>
#include <string_view>

#include "common/base/cat.h"
#include "common/process/shared_library.h"

namespace common {
namespace {

// Of cuDeviceGetAttribute.
constexpr int kMaxThreadsPerBlock = 1, kMaxGridX = 5, kMultiprocessors = 16, kL2Bytes = 38,
              kMajor = 75, kMinor = 76, kSharedPerBlockMax = 97;

// CUresult values.
constexpr CudaResult kNoDevice = 100, kDeviceUnavailable = 46, kEccError = 214, kNvlinkError = 220,
                     kContained = 226, kIllegalAddress = 700, kLaunchTimeout = 702, kAssert = 710,
                     kStackError = 714, kIllegalInstruction = 715, kMisalignedAddress = 716,
                     kAddressSpace = 717, kInvalidPc = 718, kLaunchFailed = 719,
                     kTensorMemoryLeak = 721, kSystemNotReady = 802, kMpsTerminated = 810,
                     kExternalDevice = 911, kUnknown = 999;

// The first function that the library lacks; null when it has all.
const char* resolve(const SharedLibrary& library, CudaCalls& calls) {
  const char* missing = nullptr;
  auto find = [&](auto*& function, const char* name) {
    if (!library.find(function, name) && missing == nullptr) missing = name;
  };
  find(calls.init, "cuInit");
  find(calls.driver_version, "cuDriverGetVersion");
  find(calls.error_name, "cuGetErrorName");
  find(calls.error_string, "cuGetErrorString");
  find(calls.device_count, "cuDeviceGetCount");
  find(calls.device_get, "cuDeviceGet");
  find(calls.device_name, "cuDeviceGetName");
  find(calls.device_uuid, "cuDeviceGetUuid_v2");
  find(calls.device_total_memory, "cuDeviceTotalMem_v2");
  find(calls.device_attribute, "cuDeviceGetAttribute");
  find(calls.retain_context, "cuDevicePrimaryCtxRetain");
  find(calls.release_context, "cuDevicePrimaryCtxRelease_v2");
  find(calls.get_context, "cuCtxGetCurrent");
  find(calls.set_context, "cuCtxSetCurrent");
  find(calls.load_module, "cuModuleLoadDataEx");
  find(calls.unload_module, "cuModuleUnload");
  find(calls.get_function, "cuModuleGetFunction");
  find(calls.set_function_attribute, "cuFuncSetAttribute");
  find(calls.launch_kernel, "cuLaunchKernel");
  find(calls.launch_kernel_with, "cuLaunchKernelEx");
  find(calls.encode_tensor_map, "cuTensorMapEncodeTiled");
  find(calls.encode_window_map, "cuTensorMapEncodeIm2col");
  find(calls.allocate, "cuMemAlloc_v2");
  find(calls.free, "cuMemFree_v2");
  find(calls.allocate_host, "cuMemHostAlloc");
  find(calls.free_host, "cuMemFreeHost");
  find(calls.copy_in, "cuMemcpyHtoDAsync_v2");
  find(calls.copy_out, "cuMemcpyDtoHAsync_v2");
  find(calls.copy, "cuMemcpyDtoDAsync_v2");
  find(calls.fill, "cuMemsetD8Async");
  find(calls.create_stream, "cuStreamCreate");
  find(calls.destroy_stream, "cuStreamDestroy_v2");
  find(calls.synchronise_stream, "cuStreamSynchronize");
  find(calls.create_event, "cuEventCreate");
  find(calls.record_event, "cuEventRecord");
  find(calls.synchronise_event, "cuEventSynchronize");
  find(calls.wait_event, "cuStreamWaitEvent");
  find(calls.elapsed_ms, "cuEventElapsedTime");
  find(calls.destroy_event, "cuEventDestroy_v2");
  find(calls.is_capturing, "cuStreamIsCapturing");
  find(calls.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  find(calls.begin_capture, "cuStreamBeginCapture_v2");
  find(calls.end_capture, "cuStreamEndCapture");
  find(calls.capture_info, "cuStreamGetCaptureInfo_v2");
  find(calls.dependencies, "cuGraphNodeGetDependencies");
  find(calls.node_type, "cuGraphNodeGetType");
  find(calls.get_kernel_node, "cuGraphKernelNodeGetParams_v2");
  find(calls.set_kernel_node, "cuGraphExecKernelNodeSetParams_v2");
  find(calls.get_fill_node, "cuGraphMemsetNodeGetParams");
  find(calls.set_fill_node, "cuGraphExecMemsetNodeSetParams");
  find(calls.get_copy_node, "cuGraphMemcpyNodeGetParams");
  find(calls.set_copy_node, "cuGraphExecMemcpyNodeSetParams");
  find(calls.instantiate_graph, "cuGraphInstantiateWithFlags");
  find(calls.update_graph, "cuGraphExecUpdate_v2");
  find(calls.launch_graph, "cuGraphLaunch");
  find(calls.destroy_graph, "cuGraphDestroy");
  find(calls.destroy_graph_exec, "cuGraphExecDestroy");
  return missing;
}

std::string hex(const CudaUuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : uuid.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

bool is_kernel_fault(CudaResult result) {
  switch (result) {
    case kContained:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case kStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kAddressSpace:
    case kInvalidPc:
    case kLaunchFailed:
    case kTensorMemoryLeak:
      return true;
    default:
      return false;
  }
}

bool is_sticky(CudaResult result) {
  return is_kernel_fault(result) || result == kDeviceUnavailable || result == kEccError ||
         result == kNvlinkError || result == kSystemNotReady || result == kMpsTerminated ||
         result == kExternalDevice || result == kUnknown;
}

std::string cuda_architecture(int major, int minor) {
  return cat("sm_", major, minor, major == 9 && minor == 0 ? "a" : "");
}

Result<std::shared_ptr<const CudaDriver>> CudaDriver::open() {
  // Threads of the driver outlive its last context, so that it is never unloaded.
  auto library = SharedLibrary::open({"libcuda.so.1"}, SharedLibrary::Unload::kNever);
  if (!library.ok()) {
    return unavailable(
        cat("no CUDA driver: ", library.error().message, "; install NVIDIA's driver"));
  }
  std::shared_ptr<CudaDriver> driver(new CudaDriver());
  if (const char* missing = resolve(**library, driver->calls_); missing != nullptr) {
    return unavailable(
        cat("the CUDA driver has no ", missing, ": install the one of CUDA 12 or newer"));
  }
  if (CudaResult result = driver->calls_.init(0); result != kCudaSuccess) {
    if (result == kNoDevice) return unavailable("the CUDA driver sees no device");
    return unavailable(
        cat("the CUDA driver does not start: ", driver->check(result, "cuInit").error().message,
            "; see what nvidia-smi says"));
  }
  return std::shared_ptr<const CudaDriver>(std::move(driver));
}

int CudaDriver::version_number() const {
  int version = 0;
  return calls_.driver_version(&version) == kCudaSuccess ? version : 0;
}

std::string CudaDriver::version() const {
  int version = version_number();
  return version == 0 ? "unknown" : cuda_version_text(version);
}

std::string cuda_version_text(int version) { return cat(version / 1000, ".", version % 1000 / 10); }

Status show_one_cuda_device(int index) {
  constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";
  const char* visible = std::getenv(kVariable);
  std::string chosen = cat(index);
  if (visible != nullptr) {
    // An entry is a device's number or name, which mean the same when it stands alone.
    std::string_view rest = visible;
    for (int k = 0; k < index; ++k) {
      size_t comma = rest.find(',');
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    chosen = rest.substr(0, rest.find(','));
    if (chosen.empty()) {
      return invalid_input(
          cat("there is no CUDA device ", index, ", ", kVariable, " is '", visible, "'"));
    }
  }
  ::setenv(kVariable, chosen.c_str(), 1);
  return {};
}

Result<int> CudaDriver::device_count() const {
  int count = 0;
  LFARM_RETURN_IF_ERROR(check(calls_.device_count(&count), "cuDeviceGetCount"));
  return count;
}

Result<CudaDeviceFacts> CudaDriver::device(int index) const {
  LFARM_ASSIGN_OR_RETURN(int count, device_count());
  if (index < 0 || index >= count) {
    return unavailable(count == 0 ? std::string("the CUDA driver sees no device")
                                  : cat("there is no CUDA device ", index, ", only ", count));
  }
  CudaDeviceFacts facts;
  LFARM_RETURN_IF_ERROR(check(calls_.device_get(&facts.ordinal, index), "cuDeviceGet"));
  char name[256] = "";
  LFARM_RETURN_IF_ERROR(
      check(calls_.device_name(name, sizeof name - 1, facts.ordinal), "cuDeviceGetName"));
  facts.name = name;
  CudaUuid uuid{};
  LFARM_RETURN_IF_ERROR(check(calls_.device_uuid(&uuid, facts.ordinal), "cuDeviceGetUuid"));
  facts.uuid = hex(uuid);
  size_t memory = 0;
  LFARM_RETURN_IF_ERROR(
      check(calls_.device_total_memory(&memory, facts.ordinal), "cuDeviceTotalMem"));
  facts.memory_bytes = static_cast<int64_t>(memory);
  Status status;
  auto attribute = [&](int which) {
    int value = 0;
    Status asked =
        check(calls_.device_attribute(&value, which, facts.ordinal), "cuDeviceGetAttribute");
    if (!asked.ok()) status = asked;
    return value;
  };
  facts.major = attribute(kMajor);
  facts.minor = attribute(kMinor);
  facts.multiprocessors = attribute(kMultiprocessors);
  facts.threads_per_block_max = attribute(kMaxThreadsPerBlock);
  facts.blocks_max = attribute(kMaxGridX);
  facts.shared_bytes_per_block_max = attribute(kSharedPerBlockMax);
  facts.l2_bytes = attribute(kL2Bytes);
  if (!status.ok()) return status.error();
  return facts;
}

Status CudaDriver::check(CudaResult result, const char* what) const {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  calls_.error_name(result, &name);
  calls_.error_string(result, &text);
  std::string message = cat(what, ": ", name == nullptr ? "unknown error" : name, " (", result,
                            text == nullptr ? "" : ", ", text == nullptr ? "" : text, ")");
  if (is_sticky(result)) return Error{Code::kDeviceSick, std::move(message)};
  if (result == kCudaOutOfMemory) return unavailable(std::move(message));
  return unsupported(std::move(message));
}

}  // namespace common
