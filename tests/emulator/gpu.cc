#include "tests/emulator/gpu.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "tests/paths/paths.h"

namespace emulator {
namespace {

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  EXPECT_NE(function, nullptr) << name;
}

void find_nvrtc(void* library, Api& a) {
  find(library, "nvrtcCreateProgram", a.nvrtcCreateProgram);
  find(library, "nvrtcCompileProgram", a.nvrtcCompileProgram);
  find(library, "nvrtcGetProgramLogSize", a.nvrtcGetProgramLogSize);
  find(library, "nvrtcGetProgramLog", a.nvrtcGetProgramLog);
  find(library, "nvrtcGetCUBINSize", a.nvrtcGetCUBINSize);
  find(library, "nvrtcGetCUBIN", a.nvrtcGetCUBIN);
  find(library, "nvrtcDestroyProgram", a.nvrtcDestroyProgram);
}

void find_driver(void* library, Api& a) {
  find(library, "cuInit", a.cuInit);
  find(library, "cuDeviceGet", a.cuDeviceGet);
  find(library, "cuDeviceGetAttribute", a.cuDeviceGetAttribute);
  find(library, "cuDevicePrimaryCtxRetain", a.cuDevicePrimaryCtxRetain);
  find(library, "cuCtxSetCurrent", a.cuCtxSetCurrent);
  find(library, "cuCtxSynchronize", a.cuCtxSynchronize);
  find(library, "cuModuleLoadData", a.cuModuleLoadData);
  find(library, "cuModuleUnload", a.cuModuleUnload);
  find(library, "cuModuleGetFunction", a.cuModuleGetFunction);
  find(library, "cuFuncGetAttribute", a.cuFuncGetAttribute);
  find(library, "cuFuncSetAttribute", a.cuFuncSetAttribute);
  find(library, "cuLaunchKernel", a.cuLaunchKernel);
  find(library, "cuTensorMapEncodeTiled", a.cuTensorMapEncodeTiled);
  find(library, "cuMemAlloc_v2", a.cuMemAlloc);
  find(library, "cuMemFree_v2", a.cuMemFree);
  find(library, "cuMemAllocHost_v2", a.cuMemAllocHost);
  find(library, "cuMemFreeHost", a.cuMemFreeHost);
  find(library, "cuMemcpyHtoD_v2", a.cuMemcpyHtoD);
  find(library, "cuMemcpyDtoH_v2", a.cuMemcpyDtoH);
  find(library, "cuMemcpyHtoDAsync_v2", a.cuMemcpyHtoDAsync);
  find(library, "cuMemcpyDtoHAsync_v2", a.cuMemcpyDtoHAsync);
  find(library, "cuMemsetD8Async", a.cuMemsetD8Async);
  find(library, "cuStreamCreate", a.cuStreamCreate);
  find(library, "cuStreamDestroy_v2", a.cuStreamDestroy);
  find(library, "cuStreamSynchronize", a.cuStreamSynchronize);
  find(library, "cuEventCreate", a.cuEventCreate);
  find(library, "cuEventRecord", a.cuEventRecord);
  find(library, "cuEventSynchronize", a.cuEventSynchronize);
  find(library, "cuEventElapsedTime", a.cuEventElapsedTime);
  find(library, "cuStreamBeginCapture_v2", a.cuStreamBeginCapture);
  find(library, "cuStreamEndCapture", a.cuStreamEndCapture);
  find(library, "cuGraphInstantiateWithFlags", a.cuGraphInstantiate);
  find(library, "cuGraphLaunch", a.cuGraphLaunch);
  find(library, "cuGraphExecUpdate_v2", a.cuGraphExecUpdate);
  find(library, "cuGetErrorName", a.cuGetErrorName);
}

void* load(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << ::dlerror();
    std::abort();
  }
  return library;
}

}  // namespace

const Api& api() {
  static const Api kApi = [] {
    const std::string folder = paths::binaries("/../tests/emulator/");
    Api a{};
    find_driver(load(folder + "libcuda.so.1"), a);
    find_nvrtc(load(folder + "libnvrtc.so.13"), a);
    return a;
  }();
  return kApi;
}

Api real_nvrtc() {
  std::vector<std::string> folders = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) folders.push_back(std::string(home) + "/lib64/");
  }
  // Beside a compiler in PATH: bin/nvcc and lib64/.
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    if (::access((folder + "/nvcc").c_str(), X_OK) == 0) folders.push_back(folder + "/../lib64/");
  }
  Api a{};
  for (const std::string& folder : folders) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      void* library = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) continue;
      find_nvrtc(library, a);
      return a;
    }
  }
  return a;
}

Compiled compile(const Api& nvrtc, const std::string& source, const std::string& architecture) {
  Compiled compiled;
  void* program = nullptr;
  compiled.result =
      nvrtc.nvrtcCreateProgram(&program, source.c_str(), "test.cu", 0, nullptr, nullptr);
  if (compiled.result != 0) return compiled;
  const std::string option = "-arch=" + architecture;
  const char* options[] = {option.c_str()};
  compiled.result = nvrtc.nvrtcCompileProgram(program, 1, options);
  size_t size = 0;
  nvrtc.nvrtcGetProgramLogSize(program, &size);
  compiled.log.resize(size);
  nvrtc.nvrtcGetProgramLog(program, compiled.log.data());
  size = 0;
  nvrtc.nvrtcGetCUBINSize(program, &size);
  compiled.cubin.resize(size);
  if (size != 0) nvrtc.nvrtcGetCUBIN(program, compiled.cubin.data());
  nvrtc.nvrtcDestroyProgram(&program);
  return compiled;
}

Gpu::Gpu() {
  int device = -1;
  void* context = nullptr;
  check(api().cuInit(0));
  check(api().cuDeviceGet(&device, 0));
  check(api().cuDevicePrimaryCtxRetain(&context, device));
  check(api().cuCtxSetCurrent(context));
  check(api().cuStreamCreate(&stream, 1));
}

void* Gpu::kernel(const std::string& source, const std::string& name) {
  const Compiled compiled = compile(api(), source);
  EXPECT_EQ(compiled.result, 0) << compiled.log;
  void *module = nullptr, *function = nullptr;
  check(api().cuModuleLoadData(&module, compiled.cubin.data()));
  check(api().cuModuleGetFunction(&function, module, name.c_str()));
  return function;
}

uint64_t Gpu::memory(size_t bytes) {
  uint64_t address = 0;
  check(api().cuMemAlloc(&address, bytes));
  return address;
}

void Gpu::check(int result) {
  const char* name = "?";
  if (result != 0) api().cuGetErrorName(result, &name);
  EXPECT_EQ(result, 0) << name;
}

}  // namespace emulator
