// Kernels that write several values: which stored values are written by the kernel of another.
#pragma once

#include <vector>

#include "coordinator/search/fusion/fusion.h"

namespace coordinator {

// What the store gene of a value may say.
enum StoreGene : int64_t {
  kStoreInPlace = 0,  // every kernel that needs it computes it
  kStoreAlone = 1,    // by a kernel of its own
  kStoreWithUser = 2,
  kStoreWithSibling = 3,  // by a kernel over the same elements that reads some of the same values
};

// The values of each node's store gene that could make a difference; empty for what is not
// computed, and for copies of weights in a wider type, which kernels make wider as they read them.
std::vector<std::vector<int64_t>> store_values(const Selected& selected);

// Store genes where nobody says otherwise: kStoreInPlace for what is not materialised, and
// kStoreWithUser for outputs of the graph of which a kernel over the same elements reads each where
// it writes its own, as an optimiser's step does with what it keeps. Such outputs become
// materialised, as they are written in any case. Others are stored alone.
std::vector<int64_t> default_wishes(const Selected& selected, Materialised& materialised);

// The root of the kernel that writes each node's value, itself where that is a kernel of its own.
// Wishes are the genes of stored values; one that no kernel can fulfil is ignored. What is
// materialised must be repaired.
std::vector<common::NodeId> plan_writers(const Selected& selected, const Materialised& materialised,
                                         const std::vector<int64_t>& wishes);

}  // namespace coordinator
