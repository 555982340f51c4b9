// Times of kernels in the store of several coordinators, where a migration leaves them:
// coordinators whose own store has none take them from there.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cache/remote/remote_store.h"
#include "cache/store/store.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

struct MovedMeasurements {
  uint64_t copied = 0;  // that the target had not
  uint64_t left = 0;    // for which there is no room, some 30,000 for each of 256 records
};

// Measurements are spread over 256 signed records by the first byte of the kernel's fingerprint.
// Nothing that is there is overwritten. Not thread-safe; calls wait for the network.
class SharedMeasurements {
 public:
  SharedMeasurements(cache::RemoteStore& remote, cache::Store& store, SharedSigner own)
      : remote_(remote), store_(store), own_(std::move(own)) {}

  // Adds this store's to those that are there, and reads each record back. A record there that
  // this farm did not sign is written anew.
  common::Result<MovedMeasurements> give();
  // Adds those that are there to this store's. kCorrupt when the farm did not sign one of them.
  common::Result<MovedMeasurements> take();

 private:
  // By the fingerprint's bytes, behind which the device's name stands.
  using Times = std::map<std::string, cache::StoredMeasurement>;
  static constexpr size_t kRecords = 256;
  common::Digest place_of(size_t record) const;
  common::Result<Times> open(size_t record, std::string_view bytes) const;
  common::Status add(size_t record, Times own, MovedMeasurements& moved);
  common::Status keep(const Times& times, MovedMeasurements& moved);

  cache::RemoteStore& remote_;
  cache::Store& store_;
  const SharedSigner own_;
};

}  // namespace coordinator::service
