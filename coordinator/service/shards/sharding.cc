#include "coordinator/service/shards/sharding.h"

#include <algorithm>
#include <utility>

#include "common/base/bytes.h"

namespace coordinator::service {
namespace {

ShardTableOptions table_options(const ShardingOptions& options,
                                const common::Incarnation& incarnation) {
  ShardTableOptions table;
  table.identity = options.identity;
  table.incarnation = incarnation;
  table.duration_ms = options.duration_ms;
  table.renew_ms = options.duration_ms * 2 / 3;
  table.retry_ms = std::max<int64_t>(1, options.duration_ms / 8);
  return table;
}

// A server that was away is tried again sooner than a lease lapses.
cache::RemoteOptions of_leases(cache::RemoteOptions remote, const ShardingOptions& options) {
  remote.answer_ms = std::max<int64_t>(1, options.duration_ms / 15);
  remote.retry_last_ms = remote.answer_ms;
  remote.retry_first_ms = std::min(remote.retry_first_ms, remote.retry_last_ms);
  return remote;
}

// Of the key, as digits.
constexpr size_t kSpaceDigits = 16;

}  // namespace

std::string engine_space(const common::PublicKey& signer) {
  return common::to_hex(signer).substr(0, kSpaceDigits);
}

Sharding::Sharding(const ShardingOptions& options, cache::RemoteOptions its_remote,
                   const std::string& space, const common::Incarnation& incarnation,
                   const common::Clock& clock)
    : remote(of_leases(std::move(its_remote), options)),
      engine(remote, {space, options.replicas}),
      leases(remote, space),
      keeper(table_options(options, incarnation), leases, engine, clock),
      journals(keeper, engine) {}

}  // namespace coordinator::service
