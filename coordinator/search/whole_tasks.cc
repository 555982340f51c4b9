#include "coordinator/search/whole_tasks.h"

#include <algorithm>

#include "common/base/cat.h"

namespace coordinator {

using common::TaskOutcome;

uint32_t references_ms(bool is_whole, bool is_first, int64_t time_ms) {
  constexpr int64_t kOfRegion = 1'500;
  constexpr int64_t kOfWhole = 6'000;
  constexpr int64_t kShareOfWhole = 8;
  if (!is_whole || is_first) return kOfRegion;
  if (time_ms <= 0) return kOfWhole;
  return static_cast<uint32_t>(std::clamp<int64_t>(time_ms / kShareOfWhole, kOfRegion, UINT32_MAX));
}

common::Error nothing_worked(const CandidateResult* last) {
  common::Code code = last && last->outcome == TaskOutcome::kInfra   ? common::Code::kUnavailable
                      : last && last->outcome == TaskOutcome::kWrong ? common::Code::kVerification
                                                                     : common::Code::kInternal;
  return {code, common::cat("no candidate for the whole graph ran and was right: ",
                            last ? common::outcome_name(last->outcome) : "none was tried", ": ",
                            last ? last->message : "")};
}

}  // namespace coordinator
