#include "coordinator/search/whole_tasks.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "coordinator/search/cost/cost_model.h"

namespace coordinator {

using common::TaskOutcome;

std::vector<std::vector<int64_t>> verified_sizes(const std::vector<common::SymbolRange>& symbols) {
  // A prime, of several blocks of any loop that is cut, with a ragged end.
  constexpr int64_t kSeveralBlocks = 197;
  std::vector<int64_t> typical = representative_sizes(symbols);
  std::vector<std::vector<int64_t>> sizes{typical};
  auto add = [&](std::vector<int64_t> more) {
    if (!common::contains(sizes, more)) sizes.push_back(std::move(more));
  };
  std::vector<int64_t> smallest, odd;
  for (size_t s = 0; s < symbols.size(); ++s) {
    smallest.push_back(std::max<int64_t>(symbols[s].min, 1));
    odd.push_back(std::clamp<int64_t>(typical[s] / 2 + 3, smallest[s], symbols[s].max));
    // One symbol at a time: all of them would be too much to compute a reference of.
    std::vector<int64_t> large = typical;
    large[s] = std::clamp<int64_t>(kSeveralBlocks, smallest[s], symbols[s].max);
    add(std::move(large));
  }
  add(std::move(smallest));
  add(std::move(odd));
  return sizes;
}

uint32_t references_ms(bool is_whole, int64_t time_ms) {
  constexpr int64_t kOfRegion = 1'500;
  constexpr int64_t kShareOfWhole = 8;
  if (!is_whole) return kOfRegion;
  if (time_ms <= 0) return 0;
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
