// The CPU as a device: objects are ELF shared objects that are loaded from memory, buffers are
// host memory, library products go to OpenBLAS.
#pragma once

#include <memory>

#include "common/runtime/device/device.h"

namespace common {

// What this machine's CPU plans are made for: "cpu-x86_64-amxbf16", "cpu-x86_64-avx512bf16",
// "cpu-x86_64-avx512", "cpu-x86_64-avx2", "cpu-x86_64", "cpu-aarch64". The first time also asks the
// system for what such plans need.
Target host_cpu_target();

struct CpuDeviceOptions {
  int threads = 1;  // that share the units of a launch, the calling one included
  // Take the threads of the OpenMP runtime that the process has loaded, where there is one.
  bool shares_openmp = false;
};

// Never fails: without OpenBLAS has_gemm() is false. Launches of one run go to the device's
// threads; while they are busy with another thread's run, a launch runs on its own thread alone.
std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace common
