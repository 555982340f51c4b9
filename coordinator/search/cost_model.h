// What a kernel should cost before it was ever measured: bytes, operations, launches.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/llir.h"
#include "common/plan/io_profile.h"
#include "common/plan/plan.h"

namespace coordinator {

// The I/O and work of one launch at given sizes.
struct KernelProfile {
  double bytes = 0;            // read and written, each buffer once
  double simple_ops = 0;       // additions, comparisons, conversions: what vector units do at once
  double row_ops = 0;          // summed along rows: each waits for the one before
  double hard_ops = 0;         // exponentials, divisions, powers
  double contraction_ops = 0;  // multiply-adds
  double random_reads = 0;     // gathered rows, scattered elements
  double folded_reads = 0;     // elements whose neighbours in a row are found by division
};
// symbols[k] is the value of the body's s<k>. Values that are needed at every step of an inner loop
// are counted as often as they are computed.
KernelProfile profile_kernel(const common::Kernel& kernel, const std::vector<int64_t>& symbols);

// What a device's predictions rest on.
enum class Calibration : uint8_t {
  kNone,      // the constants are of another kind of device: predictions rank, if that
  kDefault,   // a typical CPU core's constants
  kMeasured,  // corrected by measurements on devices of this target
};
const char* calibration_name(Calibration calibration);  // "none", "default", "measured"

// What a byte that a plan computes from weights and keeps is charged in a run's time, so that among
// equally fast plans the one that holds less wins: far less than reading it.
inline constexpr double kHeldByteNs = 1e-5;

// What a unit of each kind of work takes on a kind of device, in nanoseconds.
struct DeviceTerms {
  double launch_ns;        // of a generated kernel,
  double tile_launch_ns;   // of one that packs its operands,
  double library_call_ns;  // and of a library's
  double near_byte_ns;     // while all that a kernel touches stays in a cache of near_bytes
  double far_byte_ns;
  double near_bytes;
  double simple_ns;
  double row_ns;
  double hard_ns;
  double random_ns;
  double folded_ns;
  double in_place_multiply_ns;
  double tile_multiply_ns;
  double attention_multiply_ns;
  double library_multiply_ns;
  double synchronise_ns;  // the host waits for the device once
  double host_byte_ns;    // an output on its way to the host
};
// Those of the target's kind: a typical CPU core, or a GPU.
const DeviceTerms& device_terms(const common::Target& target);

// Nanoseconds of one launch. Only the ranking matters: a search scales predictions by what it has
// measured, and a measurement always outranks a prediction.
double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols,
                  const DeviceTerms& terms);

// What one run of the whole program takes beside its launches (see common::IoProfile, whose
// launches and device traffic are parts of the kernels' predictions).
double program_overhead_ns(const common::Program& program, const std::vector<int64_t>& sizes,
                           const DeviceTerms& terms);

using common::representative_sizes;
// The sizes of a call's kernel symbols.
std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes);

}  // namespace coordinator
