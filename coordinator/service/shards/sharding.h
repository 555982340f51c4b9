// What a coordinator of several needs to serve its shards: the server that holds the truth, the
// leases there, and the keeper.
#pragma once

#include <memory>
#include <string>

#include "cache/engine/engine_leases.h"
#include "cache/engine/remote_engine.h"
#include "cache/remote/remote_store.h"
#include "common/base/clock.h"
#include "common/base/incarnation.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/shards/shard_journals.h"
#include "coordinator/service/shards/shard_keeper.h"

namespace coordinator::service {

struct Sharding {
  // `remote`: where the server is; `space`: the farm's own part of it.
  Sharding(const ShardingOptions& options, cache::RemoteOptions remote, const std::string& space,
           const common::Incarnation& incarnation, const common::Clock& clock);

  ~Sharding() { keeper.stop(); }

  cache::RemoteStore remote;
  cache::RemoteEngine engine;
  cache::EngineLeases leases;
  ShardKeeper keeper;
  ShardJournals journals;
};

}  // namespace coordinator::service
