// What a kernel looks like to a search that has never measured it: its kind and size classes, as
// the features whose effects on time carry over from kernel to kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/digest.h"
#include "common/cost/kernels/cost_model.h"
#include "common/cost/kernels/gpu_nest_times.h"
#include "common/ir/llir/llir.h"
#include "coordinator/search/genes/effects.h"
#include "coordinator/search/genes/schedule_space.h"

namespace coordinator {

struct KernelTraits {
  common::Template form{};
  uint64_t body = 0;                              // identifies the body within one search
  std::vector<common::WeightedProfile> profiles;  // one at least; the first is of the sizes below
  const common::DeviceTerms* terms = nullptr;     // of the device
  double predicted_ns = 0;                        // with the default schedule, by the profile alone
  std::shared_ptr<common::GpuNestTimes> nest_times;  // of loops on a GPU; else null
  double m = 1, n = 1, k = 1;                        // of the contraction: rows, columns, summed
  double row = 1;                                    // the last axis of the first output
  int reductions = 0;
  int operations = 0;  // computed for each element
  bool jumps = false;  // some input is read against the order of the output's last axis
};

// `sizes`, one at least, are of the body's symbols; the first decide what features it has. The
// terms must live on.
KernelTraits traits_of(const common::Kernel& kernel, const common::Digest& body,
                       const std::vector<common::WeightedSizes>& sizes,
                       const common::DeviceTerms& terms);
// With that schedule: steps that do not fill vectors, work wasted at the edges of tiles.
double predict_ns(const KernelTraits& traits, ScheduleCode code);
// Most general first.
std::vector<Feature> features_of(const KernelTraits& traits, ScheduleCode code);
// Whether later searches can use what is learned about the feature.
bool is_general(Feature feature);

}  // namespace coordinator
