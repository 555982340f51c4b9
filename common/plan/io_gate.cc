#include "common/plan/io_gate.h"

#include <algorithm>

namespace common {

std::span<const IoPrices> io_prices() {
  // CUDA: a launch that is not part of a recorded graph; a stream's synchronisation; 50 GB/s of PCI
  // Express to pinned memory; 800 GB/s of device memory, which most GPUs in use reach. CPU: a call
  // that wakes its threads; outputs lie in the host's memory, where they are read once, at 10 GB/s
  // like everything else.
  static constexpr IoPrices kPrices[] = {{"cuda", 2'000, 20'000, 0.02, 0.00125},
                                         {"cpu", 1'000, 0, 0.1, 0.1}};
  return kPrices;
}

double io_time_ns(const IoProfile& profile, const IoPrices& prices) {
  return static_cast<double>(profile.launches) * prices.launch_ns +
         static_cast<double>(profile.synchronisations) * prices.synchronisation_ns +
         static_cast<double>(profile.host_output_bytes) * prices.host_byte_ns +
         static_cast<double>(profile.device_bytes) * prices.device_byte_ns;
}

IoScore io_score(const IoProfile& before, const IoProfile& after, const IoPrices& prices) {
  auto waits = static_cast<double>(after.synchronisations - before.synchronisations);
  IoScore score;
  score.saved_ns = io_time_ns(before, prices) - io_time_ns(after, prices);
  score.with_penalty_ns = score.saved_ns - std::max(0.0, waits) * kIoPenaltyNs;
  score.in_arena_ns = score.saved_ns + waits * prices.synchronisation_ns;
  return score;
}

}  // namespace common
