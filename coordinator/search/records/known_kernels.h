// The kernels of programs that earlier searches found, and what a search leaves to later ones about
// its own.
#pragma once

#include <map>
#include <set>

#include "coordinator/search/records/kernel_times.h"
#include "coordinator/search/records/search_options.h"
#include "coordinator/search/records/tuning_records.h"

namespace coordinator {

class KnownKernels {
 public:
  explicit KnownKernels(KernelTimes& times) : times_(times) {}

  // The tuning record that the source has under the key, when it fits the graph; its kernels are
  // known from now on.
  std::optional<TuningRecord> take(const MeasurementSource& source, const common::Digest& key,
                                   const common::Graph& graph);
  struct Count {
    int64_t all = 0;
    int64_t known = 0;
  };
  // Of the program's kernels.
  Count count(const common::Program& program);

 private:
  KernelTimes& times_;
  std::set<common::Digest> fingerprints_;
};

// Adds the best schedules of the region's kernels, found with the region's effort.
void add_kernels(const TuningRecord& region, const KernelTimes& times, const SearchOptions& options,
                 std::map<common::Digest, TuningRecord>& all);

}  // namespace coordinator
