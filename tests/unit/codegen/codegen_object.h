// Compiled C kernels, loaded into the test.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/base/cat.h"
#include "common/runtime/device/cpu_device.h"
#include "worker/compile/c_compiler.h"

namespace testing_codegen {

using common::Bytes;

using KernelFunction = void (*)(void* const*, const int64_t*, int64_t, int64_t, void*);

inline const worker::Compiler& shared_compiler() {
  static const auto compiler = worker::find_c_compiler(common::host_cpu_target()).value();
  return *compiler;
}

class LoadedObject {
 public:
  explicit LoadedObject(const Bytes& object) {
    int fd = memfd_create("kernels", MFD_CLOEXEC);
    size_t written = 0;
    while (written < object.size()) {
      ssize_t n = write(fd, object.data() + written, object.size() - written);
      if (n <= 0) break;
      written += static_cast<size_t>(n);
    }
    handle_ = dlopen(common::cat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
    close(fd);
  }
  ~LoadedObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;
  KernelFunction find(const std::string& entry) const {
    return handle_ == nullptr ? nullptr
                              : reinterpret_cast<KernelFunction>(dlsym(handle_, entry.c_str()));
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace testing_codegen
