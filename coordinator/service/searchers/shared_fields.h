// The fields of values that frames and steps both have.
#pragma once

#include <type_traits>

#include "coordinator/service/searchers/search_frames.h"

namespace coordinator::service {

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearchStatus>
void fields(Archive& archive, Value& status) {
  archive(status.regions, status.duplicates, status.reused, status.known_regions, status.kernels,
          status.known_kernels, status.worker_ms, status.saved_ms);
  archive(status.stage, status.candidates, status.completed, status.budget, status.best_ns,
          status.expected_ns, status.baseline_ns, status.learned, status.pending_ms,
          status.closing_ms);
}

template <class Archive, class Value>
requires std::is_same_v<std::remove_const_t<Value>, SearchFailure>
void fields(Archive& archive, Value& failure) { archive(failure.code, failure.message); }

}  // namespace coordinator::service
