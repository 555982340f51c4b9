#include "common/plan/speedup.h"

#include <cstdio>

namespace common {

std::string speedup_text(const Provenance& provenance) {
  char text[96];
  if (provenance.speedup > 0) {
    std::snprintf(text, sizeof text, "%.2f times, %.2f to %.2f", provenance.speedup,
                  provenance.speedup_low, provenance.speedup_high);
    return text;
  }
  if (provenance.best_ns <= 0 || provenance.baseline_ns <= 0) return {};
  std::snprintf(
      text, sizeof text, "about %.2f times",
      static_cast<double>(provenance.baseline_ns) / static_cast<double>(provenance.best_ns));
  return text;
}

}  // namespace common
