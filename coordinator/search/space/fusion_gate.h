// The fusion gate: for each value of a region's default program, whether to store it or to compute
// it in place, decided by predicted times where these are good enough to overrule the default.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coordinator/search/records/calibration.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

struct FusionDecision {
  std::string operation;  // that the value is the result of
  bool was_materialised = false;
  bool is_materialised = false;
  double stored_ns = 0;  // predicted, of the region
  double in_place_ns = 0;
  friend bool operator==(const FusionDecision&, const FusionDecision&) = default;
};
// "exp: in place, 1200 ns against 1500 ns stored".
std::string print(const FusionDecision& decision);

struct Gated {
  Genome genome;  // what was decided against the default
  std::vector<FusionDecision> decisions;
};

// How much of the region's time a decision must save on a processor, by what the predictions for
// the target rest on. Infinity: nothing is overruled, on a GPU neither.
double fusion_margin(Calibration calibration);

// `worth` gives a structure's time. Decides value after value, in the program's order, each with
// those before it decided; at most `values_max` of them. On a GPU in two rounds, and then values of
// one operation together whose stores save little one by one.
Gated gate_fusion(RegionSpace& space, Calibration calibration,
                  const std::function<double(const Genome&)>& worth, size_t values_max);

}  // namespace coordinator
