// Machine classes: what measured times hold for, beside the target, which says what code needs.
//
//   AMD EPYC 7763 64-Core Processor, L1d 32 KiB, L2 512 KiB, L3 32 MiB, 2 threads
//   NVIDIA H200, 132 SMs, 140 GiB, 700 W
//
// Machines of one class share measurements and plans; workers and clients write the same text for
// the same machine, so that it can be compared. Clock rates are left out because they vary from
// moment to moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace common {

// What the text says of a processor. 0 or empty: not known, and left out.
struct ProcessorFacts {
  std::string model;   // as the processor calls itself
  std::string family;  // numbers of its design, for where the name says nothing: "25/1/1"
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data or unified caches of one core
  int threads = 1;                                   // that a run may use
};
std::string class_text(const ProcessorFacts& facts);

// From the text of /proc/cpuinfo and the directory /sys/devices/system/cpu, below `root`.
ProcessorFacts read_processor_facts(const std::string& root, int threads);

struct GpuFacts {
  std::string name;  // the product's; a slice's ends in its profile, "MIG 1g.10gb"
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  uint32_t power_limit_w = 0;
};
std::string class_text(const GpuFacts& facts);

// Of this machine's device, "cpu" or "cuda" (devices.h); `threads` of a run on the processor, which
// are of no meaning on a GPU, and `index` among the GPUs. At most kMachineBytesMax printable ASCII
// characters; empty when the device is not there. Opens no device.
std::string machine_class_of(std::string_view device, int threads, int index = 0);
inline constexpr size_t kMachineBytesMax = 256;

// What GPU code and library products are made and run with beside the compiler: the driver's and
// cuBLASLt's versions. Empty when there is no driver.
std::string cuda_library_text();

}  // namespace common
