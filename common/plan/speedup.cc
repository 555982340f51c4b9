#include "common/plan/speedup.h"

#include "common/base/cat.h"
#include "common/text/units.h"

namespace common {

std::string speedup_text(const Provenance& provenance) {
  if (provenance.speedup.ratio > 0) {
    return cat(ratio_text(provenance.speedup.ratio), " times, ", ratio_text(provenance.speedup.low),
               " to ", ratio_text(provenance.speedup.high));
  }
  if (provenance.best_ns <= 0 || provenance.baseline_ns <= 0) return {};
  double ratio =
      static_cast<double>(provenance.baseline_ns) / static_cast<double>(provenance.best_ns);
  return cat("about ", ratio_text(ratio), " times");
}

}  // namespace common
