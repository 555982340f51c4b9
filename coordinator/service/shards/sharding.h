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
#include "common/base/signing.h"
#include "coordinator/service/loop/options.h"
#include "coordinator/service/shards/shard_journals.h"
#include "coordinator/service/shards/shard_keeper.h"

namespace coordinator::service {

// A farm's own part of the server: of its signing key, which its coordinators share.
std::string engine_space(const common::PublicKey& signer);

struct Sharding {
  // `remote`: where the server is; `space`: the farm's own part of it.
  Sharding(const ShardingOptions& options, cache::RemoteOptions remote, const std::string& space,
           const common::Incarnation& incarnation, const common::Clock& clock);

  ~Sharding() { keeper.stop(); }

  cache::RemoteStore remote;        // that the engine is on
  cache::RemoteStore lease_remote;  // the same, asked apart: renewals wait for nothing else
  cache::RemoteEngine engine;
  cache::EngineLeases leases;
  ShardKeeper keeper;
  ShardJournals journals;
};

}  // namespace coordinator::service
