// The emulated GPU as its tests drive it: compile a source, load it, move memory, launch. Thin, so
// that a test shows the driver's calls and their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/driver/driver_codes.h"

namespace emulator {

// The functions of both libraries by their public names, less the suffixes of versions.
// NOLINTBEGIN(readability-identifier-naming): names of public interfaces.
struct Api {
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int*, int);
  int (*cuDeviceGetAttribute)(int*, int, int);
  int (*cuDevicePrimaryCtxRetain)(void**, int);
  int (*cuCtxSetCurrent)(void*);
  int (*cuCtxSynchronize)();
  int (*cuModuleLoadData)(void**, const void*);
  int (*cuModuleUnload)(void*);
  int (*cuModuleGetFunction)(void**, void*, const char*);
  int (*cuFuncGetAttribute)(int*, int, void*);
  int (*cuFuncSetAttribute)(void*, int, int);
  int (*cuLaunchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        void*, void**, void**);
  int (*cuTensorMapEncodeTiled)(void*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                                const uint32_t*, const uint32_t*, int, int, int, int);
  int (*cuMemAlloc)(uint64_t*, size_t);
  int (*cuMemFree)(uint64_t);
  int (*cuMemAllocHost)(void**, size_t);
  int (*cuMemFreeHost)(void*);
  int (*cuMemcpyHtoD)(uint64_t, const void*, size_t);
  int (*cuMemcpyDtoH)(void*, uint64_t, size_t);
  int (*cuMemcpyHtoDAsync)(uint64_t, const void*, size_t, void*);
  int (*cuMemcpyDtoHAsync)(void*, uint64_t, size_t, void*);
  int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, void*);
  int (*cuStreamCreate)(void**, unsigned);
  int (*cuStreamDestroy)(void*);
  int (*cuStreamSynchronize)(void*);
  int (*cuEventCreate)(void**, unsigned);
  int (*cuEventRecord)(void*, void*);
  int (*cuEventSynchronize)(void*);
  int (*cuEventElapsedTime)(float*, void*, void*);
  int (*cuStreamBeginCapture)(void*, int);
  int (*cuStreamEndCapture)(void*, void**);
  int (*cuGraphInstantiate)(void**, void*, unsigned long long);
  int (*cuGraphLaunch)(void*, void*);
  int (*cuGraphExecUpdate)(void*, void*, void*);
  int (*cuGetErrorName)(int, const char**);

  int (*nvrtcCreateProgram)(void**, const char*, const char*, int, const char* const*,
                            const char* const*);
  int (*nvrtcCompileProgram)(void*, int, const char* const*);
  int (*nvrtcGetProgramLogSize)(void*, size_t*);
  int (*nvrtcGetProgramLog)(void*, char*);
  int (*nvrtcGetCUBINSize)(void*, size_t*);
  int (*nvrtcGetCUBIN)(void*, char*);
  int (*nvrtcDestroyProgram)(void**);
};
// NOLINTEND(readability-identifier-naming)

// The emulator's, loaded once.
const Api& api();

struct Compiled {
  int result = 0;
  std::string log, cubin;
};
// `nvrtc`: functions of the emulated compiler or of a real one.
Compiled compile(const Api& nvrtc, const std::string& source,
                 const std::string& architecture = "sm_90a");

// The compiler of an installed CUDA toolkit; all null where there is none.
Api real_nvrtc();

// A context on the device, current on this thread, and one stream. Failures fail the test.
class Gpu {
 public:
  Gpu();
  // The entry of a source compiled here; both live as long as the process.
  void* kernel(const std::string& source, const std::string& name);
  uint64_t memory(size_t bytes);
  template <class T>
  uint64_t upload(const std::vector<T>& values) {
    const uint64_t address = memory(values.size() * sizeof(T));
    check(api().cuMemcpyHtoD(address, values.data(), values.size() * sizeof(T)));
    return address;
  }
  template <class T>
  std::vector<T> download(uint64_t address, size_t count) {
    std::vector<T> values(count);
    check(api().cuMemcpyDtoH(values.data(), address, count * sizeof(T)));
    return values;
  }
  // Arguments by value, as the kernel declares them. The result of the launch alone.
  template <class... A>
  int launch(void* function, unsigned blocks, unsigned threads, unsigned shared, A... arguments) {
    void* parameters[] = {&arguments..., nullptr};
    return api().cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, parameters,
                                nullptr);
  }
  int synchronise() { return api().cuStreamSynchronize(stream); }
  // Expects success.
  void check(int result);

  void* stream = nullptr;
};

}  // namespace emulator
