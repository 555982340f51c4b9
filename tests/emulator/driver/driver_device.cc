// The driver API of the emulated device: device, context, modules and launches. Signatures are
// those of the public interface, with handles as untyped pointers.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "tests/emulator/driver/driver_state.h"

namespace emulator {
namespace {

// LFARM_EMULATOR_DRIVER makes it another.
int driver_version() {
  const char* version = std::getenv("LFARM_EMULATOR_DRIVER");
  return version == nullptr ? 13000 : std::atoi(version);
}
// A driver maps the memories of the machine and of all devices into one space of addresses.
constexpr size_t kReservedBytes = size_t{512} << 30;

// The numbers of the machine's devices that the process may see, by the driver's own rule: a list
// ends where it names a device that is not there. LFARM_EMULATOR_GPUS says how many there are.
std::vector<int> visible_devices() {
  const char* number = std::getenv("LFARM_EMULATOR_GPUS");
  const int count = number == nullptr ? 1 : std::min(std::atoi(number), kDevicesMax);
  std::vector<int> visible;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (list == nullptr) {
    for (int k = 0; k < count; ++k) visible.push_back(k);
    return visible;
  }
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    if (entry.empty() || entry.find_first_not_of("0123456789") != std::string::npos) break;
    if (std::atoi(entry.c_str()) >= count) break;
    visible.push_back(std::atoi(entry.c_str()));
  }
  return visible;
}

// The device's own value in a list that the variable holds, "132,66"; else `otherwise`.
int listed(const char* variable, int device, int otherwise) {
  const char* list = std::getenv(variable);
  std::istringstream entries(list == nullptr ? "" : list);
  std::string entry;
  for (int k = 0; k <= driver().devices[static_cast<size_t>(device)]; ++k) {
    if (!std::getline(entries, entry, ',')) return otherwise;
  }
  return std::atoi(entry.c_str());
}

// As the driver's interface has them.
struct LaunchAttribute {
  int id, padding;
  union {
    int value;
    char bytes[64];
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};

}  // namespace

bool set_parameters(Operation& op, void** parameters) {
  const Function& f = *op.function;
  const uint64_t threads = uint64_t{op.block.x} * op.block.y * op.block.z;
  const unsigned threads_max =
      f.kernel->threads_max != 0 ? f.kernel->threads_max : kBlockThreadsMax;
  if (op.grid.x == 0 || op.grid.y == 0 || op.grid.z == 0 || op.grid.x > 0x7fffffffU ||
      op.grid.y > 65535 || op.grid.z > 65535 || threads == 0 || threads > kBlockThreadsMax ||
      threads > threads_max || op.block.z > 64 || op.dynamic_shared_bytes > f.dynamic_shared_max ||
      (parameters == nullptr && f.kernel->parameter_count != 0)) {
    return false;
  }
  // What clusters of a real device may be and those here are not: see multiprocessor.h.
  const unsigned cluster = f.kernel->cluster;
  if (cluster > 1 && (cluster > kClusterMax || op.grid.x % cluster != 0 || op.grid.y != 1 ||
                      op.grid.z != 1 || threads % lf_emu::kWarpSize != 0 || f.static_shared != 0)) {
    return false;
  }
  op.parameters.clear();
  for (unsigned i = 0; i < f.kernel->parameter_count; ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    op.parameters.emplace_back(bytes, bytes + f.kernel->parameters[i].bytes);
  }
  return true;
}

// NOLINTBEGIN(readability-identifier-naming): names of a public interface.

// For tests: how often a function did its work, launches into a capture included.
LF_API lfEmulatorCalls(const char* name) {
  Call call(Call::Needs::kNothing);
  return driver().calls[name];
}

// --- device and context ---

LF_API cuInit(unsigned flags) {
  Call call(Call::Needs::kNothing);
  if (flags != 0) return kInvalidValue;
  Driver& d = driver();
  if (d.is_initialised) return kSuccess;
  d.devices = visible_devices();
  if (d.devices.empty()) return kNoDevice;
  void* reserved = ::mmap(nullptr, kReservedBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return kOutOfMemory;
  d.is_initialised = true;
  return kSuccess;
}

LF_API cuDriverGetVersion(int* version) {
  *version = driver_version();
  return kSuccess;
}

LF_API cuDeviceGetCount(int* count) {
  Call call(Call::Needs::kDevice);
  if (call.error == 0) *count = static_cast<int>(driver().devices.size());
  return call.error;
}

LF_API cuDeviceGet(int* device, int ordinal) {
  Call call(ordinal);
  if (call.error == 0) *device = ordinal;
  return call.error;
}

LF_API cuDeviceGetName(char* name, int size, int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  if (size < 1) return kInvalidValue;
  std::strncpy(name, "Emulated GPU", size);
  name[size - 1] = '\0';
  return kSuccess;
}

LF_API cuDeviceTotalMem_v2(size_t* bytes, int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  *bytes = Memory::total_bytes();
  return kSuccess;
}

LF_API cuDeviceGetAttribute(int* value, int attribute, int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  // Of an H100, by the numbers of CUdevice_attribute.
  static const std::unordered_map<int, int> kAttributes = {
      {1, kBlockThreadsMax},  // threads a block
      {2, 1024},              // block size in x, y, z
      {3, 1024},
      {4, 64},
      {5, 2147483647},  // grid size in x, y, z
      {6, 65535},
      {7, 65535},
      {8, kSharedBytes},       // shared memory a block
      {9, 65536},              // constant memory
      {10, 32},                // warp
      {12, 65536},             // registers a block
      {13, 1980000},           // kHz
      {16, 132},               // multiprocessors
      {17, 0},                 // no time limit
      {18, 0},                 // not integrated
      {19, 1},                 // maps host memory
      {20, 0},                 // compute mode: default
      {31, 1},                 // concurrent kernels
      {32, 1},                 // ECC
      {36, 2619000},           // memory clock, kHz
      {37, 5120},              // bus, bits
      {38, 50 * 1024 * 1024},  // L2
      {39, 2048},              // threads a multiprocessor
      {40, 3},                 // copy engines
      {41, 1},                 // unified addressing
      {75, 9},                 // compute capability
      {76, 0},
      {81, 228 * 1024},         // shared memory a multiprocessor
      {82, 65536},              // registers a multiprocessor
      {97, kSharedBytesOptIn},  // shared memory a block, on request
      {106, 32},                // blocks a multiprocessor
      {111, 1024},              // shared memory that the system keeps, a block
  };
  auto found = kAttributes.find(attribute);
  if (found == kAttributes.end()) return kInvalidValue;
  constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
  *value = found->second;
  if (attribute == kMultiprocessors) *value = listed("LFARM_EMULATOR_SMS", device, *value);
  const int capability = listed("LFARM_EMULATOR_CAPABILITIES", device, 90);
  if (attribute == kMajor) *value = capability / 10;
  if (attribute == kMinor) *value = capability % 10;
  return kSuccess;
}

LF_API cuDeviceGetUuid_v2(void* uuid, int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  char text[17] = "emulated-gpu-000";
  text[15] = static_cast<char>('0' + driver().devices[static_cast<size_t>(device)]);
  std::memcpy(uuid, text, 16);
  return kSuccess;
}

LF_API cuDevicePrimaryCtxRetain(void** context, int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  Context& primary = driver().contexts[static_cast<size_t>(device)];
  ++primary.retained;
  *context = &primary;
  return kSuccess;
}

LF_API cuDevicePrimaryCtxRelease_v2(int device) {
  Call call(device);
  if (call.error != 0) return call.error;
  Context& primary = driver().contexts[static_cast<size_t>(device)];
  if (primary.retained == 0) return kInvalidContext;
  if (--primary.retained == 0) destroy(&primary);
  return kSuccess;
}

LF_API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  Call call(device);
  if (call.error != 0) return call.error;
  *flags = 0;
  *active = driver().contexts[static_cast<size_t>(device)].retained == 0 ? 0 : 1;
  return kSuccess;
}

LF_API cuCtxSetCurrent(void* context) {
  Call call(Call::Needs::kDevice);
  if (call.error != 0) return call.error;
  std::vector<Context*>& stack = context_stack();
  Context* known = find_context(context);
  if (context != nullptr && known == nullptr) return kInvalidContext;
  if (!stack.empty()) stack.pop_back();
  if (known != nullptr) stack.push_back(known);
  return kSuccess;
}

LF_API cuCtxPushCurrent_v2(void* context) {
  Call call(Call::Needs::kDevice);
  if (call.error != 0) return call.error;
  if (find_context(context) == nullptr) return kInvalidContext;
  context_stack().push_back(find_context(context));
  return kSuccess;
}

LF_API cuCtxPopCurrent_v2(void** context) {
  Call call(Call::Needs::kDevice);
  if (call.error != 0) return call.error;
  if (context_stack().empty()) return kInvalidContext;
  *context = current_context();
  context_stack().pop_back();
  return kSuccess;
}

LF_API cuCtxGetCurrent(void** context) {
  Call call(Call::Needs::kDevice);
  if (call.error != 0) return call.error;
  *context = current_context();
  return kSuccess;
}

LF_API cuCtxSynchronize() {
  Call call;
  if (call.error != 0) return call.error;
  if (int error = refuse_in_capture(); error != 0) return error;
  const int error = drain_all();
  executor().memory.close();
  return error;
}

// --- modules ---

LF_API cuModuleLoadData(void** module, const void* image) {
  Call call;
  if (call.error != 0) return call.error;
  if (int error = refuse_in_capture(); error != 0) return error;
  int code = kSuccess;
  auto loaded = std::make_unique<LoadedModule>();
  loaded->context = current_context();
  loaded->module = Module::load(image, driver_version(), &code);
  if (code == kSuccess) *module = keep(driver().modules, std::move(loaded));
  return code;
}

LF_API cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                          void** values) {
  constexpr int kErrorLog = 5;
  const int error = cuModuleLoadData(module, image);
  for (unsigned k = 0; k < count && error == kUnsupportedPtxVersion; ++k) {
    if (options[k] == kErrorLog) std::strcpy(static_cast<char*>(values[k]), "PTX is too new");
  }
  return error;
}

LF_API cuModuleUnload(void* module) {
  Call call;
  if (call.error != 0) return call.error;
  if (find(driver().modules, module) == nullptr) return kInvalidHandle;
  const int error = drain_all();
  driver().modules.erase(module);
  return error;
}

LF_API cuModuleGetFunction(void** function, void* module, const char* name) {
  Call call;
  if (call.error != 0) return call.error;
  LoadedModule* loaded = find(driver().modules, module);
  if (loaded == nullptr) return kInvalidHandle;
  const lf_emu::Kernel* kernel = loaded->module->find(name);
  if (kernel == nullptr) return kNotFound;
  std::unique_ptr<Function>& slot = loaded->functions[name];
  if (!slot) {
    slot = std::make_unique<Function>();
    slot->context = loaded->context;
    slot->module = loaded->module;
    slot->kernel = kernel;
    slot->static_shared = static_cast<unsigned>(loaded->module->static_shared_bytes(name));
    slot->dynamic_shared_max = kSharedBytes - slot->static_shared;
  }
  *function = slot.get();
  return kSuccess;
}

LF_API cuFuncGetAttribute(int* value, int attribute, void* handle) {
  Call call;
  if (call.error != 0) return call.error;
  const auto& f = *static_cast<const Function*>(handle);
  switch (attribute) {
    case 0:
      *value = f.kernel->threads_max != 0 ? static_cast<int>(f.kernel->threads_max)
                                          : static_cast<int>(kBlockThreadsMax);
      return kSuccess;
    case 1:
      *value = static_cast<int>(f.static_shared);
      return kSuccess;
    case 2:
    case 3:
      *value = 0;
      return kSuccess;
    case 4:
      *value = 32;
      return kSuccess;
    case 5:
    case 6:
      *value = 90;
      return kSuccess;
    case 8:
      *value = static_cast<int>(f.dynamic_shared_max);
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

LF_API cuFuncSetAttribute(void* handle, int attribute, int value) {
  constexpr int kDynamicSharedMax = 8, kCarveout = 9;
  Call call;
  if (call.error != 0) return call.error;
  if (attribute == kCarveout) return kSuccess;
  if (attribute != kDynamicSharedMax || value < 0) return kInvalidValue;
  auto& f = *static_cast<Function*>(handle);
  if (static_cast<unsigned>(value) + f.static_shared > kSharedBytesOptIn) return kInvalidValue;
  f.dynamic_shared_max = value;
  return kSuccess;
}

LF_API cuLaunchKernelEx(const LaunchConfig* config, void* handle, void** parameters, void** extra) {
  constexpr int kProgrammaticSerialization = 6;
  Call call;
  if (call.error != 0) return call.error;
  if (handle == nullptr) return kInvalidHandle;
  Operation op;
  op.kind = Operation::Kind::kKernel;
  op.function = static_cast<const Function*>(handle);
  op.module = op.function->module;
  op.kernel = op.function->kernel;
  op.grid = {config->grid[0], config->grid[1], config->grid[2]};
  op.block = {config->block[0], config->block[1], config->block[2]};
  op.dynamic_shared_bytes = config->shared_bytes;
  for (unsigned k = 0; k < config->attribute_count; ++k) {
    if (config->attributes[k].id != kProgrammaticSerialization) return kInvalidValue;
    op.overlaps = config->attributes[k].value != 0;
  }
  const bool overlaps = op.overlaps;
  if (!set_parameters(op, parameters) || extra != nullptr) return kInvalidValue;
  const int error = issue(config->stream, std::move(op));
  if (error != kSuccess) return error;
  if (overlaps) counted("overlapping kernels");
  return counted("cuLaunchKernel");
}

LF_API cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void* stream, void** parameters, void** extra) {
  const LaunchConfig config{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream, nullptr, 0};
  return cuLaunchKernelEx(&config, handle, parameters, extra);
}

// NOLINTEND(readability-identifier-naming)

}  // namespace emulator
