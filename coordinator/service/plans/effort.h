// How thoroughly the plans of the store were searched for, so that a submit that asks for no more
// than an earlier one is answered with what that one found.
#pragma once

#include <cstdint>

#include "cache/store/store.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"

namespace coordinator::service {

// What a search was given. Limits of 0 are none of that kind.
struct Effort {
  uint64_t candidates = 0;
  uint64_t ms = 0;
  uint64_t seed = 0;
  friend bool operator==(const Effort&, const Effort&) = default;
};

// Whether a search that was given `spent` need not be repeated for `asked`.
bool covers(const Effort& spent, const Effort& asked);
// What the search of a plan was given, as far as the plan says: plans of earlier releases say how
// many candidates were tried.
Effort effort_of(const common::Provenance& provenance);

// Of the searches that have ended for the plan at `place` (common::place_of), whichever plan
// stayed. Thread-safe, as the store is.
common::Status note_effort(cache::Store& store, const common::Digest& place, const Effort& spent);
common::Result<bool> has_covering_effort(cache::Store& store, const common::Digest& place,
                                         const Effort& asked);

}  // namespace coordinator::service
