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
  table.last(options.duration_ms);
  return table;
}

cache::RemoteOptions with_answers_in(cache::RemoteOptions remote, int64_t ms) {
  remote.answer_ms = std::max<int64_t>(1, ms);
  remote.retry.last_ms = remote.answer_ms;
  remote.retry.first_ms = std::min(remote.retry.first_ms, remote.retry.last_ms);
  return remote;
}

// A server that does not answer is asked several times within a lease.
constexpr int64_t kAnswersInALease = 8;
constexpr int64_t kEngineAnswerMs = 1'000;

// Of the key, as digits.
constexpr size_t kSpaceDigits = 16;

}  // namespace

std::string engine_space(const common::PublicKey& signer) {
  return common::to_hex(signer).substr(0, kSpaceDigits);
}

Sharding::Sharding(const ShardingOptions& options, cache::RemoteOptions its_remote,
                   const std::string& space, const common::Incarnation& incarnation,
                   const common::Clock& clock)
    : remote(with_answers_in(its_remote, kEngineAnswerMs)),
      lease_remote(with_answers_in(std::move(its_remote), options.duration_ms / kAnswersInALease)),
      engine(remote, {space, options.replicas}),
      leases(lease_remote, space),
      keeper(table_options(options, incarnation), leases, engine, clock),
      journals(keeper, engine) {}

}  // namespace coordinator::service
