// What a kernel should cost before it was ever measured: bytes, operations, launches.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ir/llir.h"

namespace coordinator {

// The I/O and work of one launch at given sizes.
struct KernelProfile {
  double bytes = 0;            // read and written, each buffer once
  double simple_ops = 0;       // additions, comparisons, conversions: what vector units do at once
  double hard_ops = 0;         // exponentials, divisions, powers
  double contraction_ops = 0;  // multiply-adds
  double random_reads = 0;     // gathered or scattered elements
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

// Nanoseconds on a typical CPU core. Only the ranking matters: a search scales predictions by what
// it has measured, and a measurement always outranks a prediction.
double predict_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols);

// Values to measure at: near the middle of what people run, inside every range.
std::vector<int64_t> representative_sizes(const std::vector<common::SymbolRange>& symbols);
// The sizes of a call's kernel symbols.
std::vector<int64_t> call_symbols(const common::Call& call, const std::vector<int64_t>& sizes);

}  // namespace coordinator
