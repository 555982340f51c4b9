// State that replicas hand over through the shared store, so that the next leader continues from
// the last one's: tenants' usage, publications, quarantined candidates, priors and tuning records.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cache/remote/remote_store.h"
#include "cache/store/store.h"
#include "cache/store/tenant_usage.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// Values are spread over a fixed number of signed records by the digest of their names, so that a
// change rewrites a part of them. Not thread-safe; calls wait for the network.
class ReplicaNotes {
 public:
  using Usages = std::map<std::string, cache::TenantUsage>;

  ReplicaNotes(cache::RemoteStore& remote, cache::Store& store, SharedSigner own)
      : remote_(remote), store_(store), own_(std::move(own)) {}

  // Takes what replicas have left into this one's store, but for tenants' usage, which is returned:
  // it is to be added to what the farm's memory holds. kUnavailable and kTimedOut: not now. A
  // record that this key did not sign is passed over with a line in the log.
  common::Result<Usages> pull();
  // Leaves what has changed since the last push; nothing before pull() has succeeded, or it would
  // take the place of what nobody has read.
  common::Status push();
  bool is_pulled() const { return is_pulled_; }

 private:
  static constexpr size_t kRecords = 256;
  struct Value {
    std::string name;
    std::string bytes;
  };
  using Values = std::vector<Value>;

  common::Digest place_of(size_t record) const;
  common::Result<std::string> signed_record(size_t record, const Values& values) const;
  common::Result<Values> read(size_t record, std::string_view bytes) const;
  common::Result<std::vector<Values>> own_values() const;
  common::Status take(const Value& value, cache::Changes& changes, Usages& usages);

  cache::RemoteStore& remote_;
  cache::Store& store_;
  const SharedSigner own_;
  bool is_pulled_ = false;
  std::array<common::Digest, kRecords> known_{};  // digests of the values as they are there
};

}  // namespace coordinator::service
