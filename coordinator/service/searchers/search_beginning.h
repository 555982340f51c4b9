// All that a search begins with, in this process or in a searcher's, for the first time or after a
// coordinator or a searcher was lost.
#pragma once

#include <memory>
#include <optional>

#include "coordinator/service/journal/search_steps.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/plans/measurements.h"

namespace coordinator::service {

struct SearchBeginning {
  JobRequest request;
  common::SharedBytes graph;  // encoded
  JobStart start;
  std::shared_ptr<JobMeasurements> measurements;  // what the store knows
  KnownResults results;                           // of an earlier coordinator
  std::optional<int64_t> finish_after;            // candidates after which it was told to end
  SearchFactory create;
};

// The search in this process: rolls, cuts, saturates, for seconds. Thread-safe. kInvalidInput when
// the graph does not verify, kInternal for bugs of the search and a lack of memory.
common::Result<std::shared_ptr<SearchSteps>> begin_inside(const SearchBeginning& beginning);
// The same with another source of measurements, which outlives the search.
common::Result<std::shared_ptr<SearchSteps>> begin_inside(const SearchBeginning& beginning,
                                                          const MeasurementSource& source);

}  // namespace coordinator::service
