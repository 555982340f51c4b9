// A loaded module of the emulated driver: the shared object in a container, and its kernels.
#pragma once

#include <memory>
#include <string>

#include "tests/emulator/device/multiprocessor.h"

namespace emulator {

class Module {
 public:
  // Null with `code` set when the image is no container, is for another architecture, is newer than
  // a driver of CUDA `driver` (13000) or fails to load.
  static std::unique_ptr<Module> load(const void* image, int driver, int* code);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const lf_emu::Kernel* find(const std::string& name) const;
  // What the kernel's body declares.
  size_t static_shared_bytes(const std::string& kernel) const;
  // The calling thread's instance of the module's static shared memory.
  GridLaunch::SharedRange static_shared() const;

 private:
  Module(void* handle, std::string object);
  void* handle_;
  std::string object_;
  const lf_emu::Kernel* kernels_;
  void* (*shared_anchor_)();
  uint64_t id_;  // never used again, unlike an address
};

}  // namespace emulator
