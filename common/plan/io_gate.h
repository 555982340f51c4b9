// Whether moving work into a model pays: what a program waits for and moves, priced for a target.
//
// A spectral front end that returns whole spectra may find the peaks in the model instead, say: one
// launch more, and far fewer bytes to the host.
#pragma once

#include <span>
#include <string_view>

#include "common/plan/io_profile.h"

namespace common {

// Nanoseconds of each thing that an IoProfile counts.
struct IoPrices {
  std::string_view target;
  double launch_ns = 0;
  double synchronisation_ns = 0;
  double host_byte_ns = 0;    // a byte of output, until whoever wants it has it
  double device_byte_ns = 0;  // a byte that a call reads or writes
};
// "cuda" and "cpu".
std::span<const IoPrices> io_prices();

double io_time_ns(const IoProfile& profile, const IoPrices& prices);

// What one call saves if `after` replaces `before`, in nanoseconds; negative: what it costs.
struct IoScore {
  double saved_ns = 0;
  // With kIoPenaltyNs for each synchronisation that is new: an application that kept the device
  // busy ahead of time waits for it now.
  double with_penalty_ns = 0;
  // Where the host reads outputs from an arena when it comes to it, and no synchronisation counts.
  double in_arena_ns = 0;
};
inline constexpr double kIoPenaltyNs = 15e6;
IoScore io_score(const IoProfile& before, const IoProfile& after, const IoPrices& prices);

}  // namespace common
