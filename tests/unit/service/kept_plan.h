// Plans on a client's disk as if a farm had given them: for whoever runs a handmade plan through
// liblfarm without a farm.
#pragma once

#include <string>
#include <utility>

#include "clients/runtime/farm/disk_cache.h"
#include "clients/runtime/farm/met_farms.h"
#include "clients/runtime/farm/state_directory.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/signing.h"
#include "common/wire/ir_codec.h"
#include "tests/unit/clients/sealed_plan.h"

namespace common {

// Signs `plan`, whose objects are all `object`, for the graph of this hash, and puts it on the disk
// of the client with this state directory.
inline Status keep_plan(const std::string& state, const Digest& graph_hash, Plan plan,
                        Bytes object) {
  clients::StateDirectory directory{state};
  LFARM_RETURN_IF_ERROR(make_directories(state));
  LFARM_ASSIGN_OR_RETURN(SigningKey key, load_or_create_signing_key(directory.signing_key()));
  plan.key.graph_hash = graph_hash;
  plan.provenance.farm = "farm";
  plan.provenance.worker = "worker";
  clients::PulledPlan pulled;
  pulled.plan = plan;
  Digest digest = digest_of(object);
  pulled.objects.emplace(digest, share(std::move(object)));
  pulled.signed_plan = share(encode_sealed(seal(key, "tenant", plan)));
  pulled.id = digest_of(pulled.signed_plan.bytes);
  clients::DiskCache disk(directory.client_plans());
  LFARM_RETURN_IF_ERROR(disk.put(pulled, {key.public_key(), "tenant", {}}));
  clients::MetFarms met(directory.met_farms());
  return met.remember("", {key.public_key(), "tenant", plan.key.epoch});
}

}  // namespace common
