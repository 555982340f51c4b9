// Journals of open jobs on their way between a state directory's store and the engine.
#pragma once

#include <cstdint>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "coordinator/service/shards/sharding.h"

namespace coordinator::service {

struct MovedJournals {
  uint64_t moved = 0;
  uint64_t left = 0;  // damaged, or too large for the engine: they stay where they are
};

// Each journal is read back before it leaves its source. All shards must be held.
common::Result<MovedJournals> journals_to_engine(cache::Store& store, Sharding& sharding);
// A job for which the store has a journal with as many records stays as it is there. Jobs get
// numbers that no job of the store has had.
common::Result<MovedJournals> journals_to_store(Sharding& sharding, cache::Store& store);

}  // namespace coordinator::service
