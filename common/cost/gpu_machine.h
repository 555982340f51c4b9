// What GPUs can do, by product: the constants that predicted times are made of.
#pragma once

#include <span>
#include <string_view>

namespace common {

// Rates are those of data sheets, dense and at the boost clock.
struct GpuMachine {
  std::string_view name;          // as the driver's name for the product contains it
  std::string_view target;        // the target whose code it runs best, such as "cuda-sm_90a"
  double processors = 0;          // multiprocessors
  double clock_ghz = 0;           // boost
  double dram_bytes_per_ns = 0;   // of device memory
  double l2_bytes = 0;            // of the cache that all processors share
  double shared_bytes = 0;        // of a processor, for blocks
  double single_per_ns = 0;       // float32 additions and multiplications, outside of tensor cores
  double half_tensor_per_ns = 0;  // the same of 16-bit products on tensor cores; 0: none
  // Of that, what products of single warps (mma.sync) reach, where those of warpgroups are faster.
  double warp_tensor_share = 1;
};

// One row a product; a name that is part of another one's comes after it.
std::span<const GpuMachine> gpu_machines();
// The product of that name, which the driver gives; null where none of the table's names is a word
// of it.
const GpuMachine* find_gpu_machine(std::string_view name);
// A typical product that runs the target's code: of the rows with the target's own architecture the
// first, else of those with the nearest older one.
const GpuMachine& gpu_machine_of_target(std::string_view target);
// The machine of a class (common/runtime/machine_class.h): "NVIDIA L4, 58 SMs, 22 GiB, 72 W" is the
// product's row with so many processors, of which a slice of a device has fewer. Where the text
// names none, a typical one of the target.
GpuMachine gpu_machine_of_class(std::string_view target, std::string_view machine_class);

// Whether kernels of the target may begin before the one before them ends, and wait for it
// (programmatic dependent launch: compute capability 9.0 and later).
bool launches_overlap(std::string_view target);
// Whether the target's warpgroups multiply and its copy engine reads tensor maps, by instructions
// of code for it alone (compute capability 9.0a).
bool warpgroups_multiply(std::string_view target);

}  // namespace common
