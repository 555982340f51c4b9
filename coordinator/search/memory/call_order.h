// Reorders the calls of a program so that less memory is live at once.
//
//   g1 = grad(..)  g2 = grad(..)  w1 = update(w1, g1)  w2 = update(w2, g2)
//   g1 = grad(..)  w1 = update(w1, g1)  g2 = grad(..)  w2 = update(w2, g2)
//
// The first order holds all gradients at once, the second one of them. A call that frees more than
// it writes moves up, behind the calls that it reads from; one that writes more than it frees moves
// down, in front of the first call that reads from it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace coordinator {

// Whether an order with a lower peak was found, which the plan's calls then have. A call that
// overwrites a state stays behind those that read the state before.
bool lower_peak_by_order(common::Plan* plan, const std::vector<int64_t>& sizes);

}  // namespace coordinator
