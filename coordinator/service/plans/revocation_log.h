// What a farm has revoked, as its clients get it: one signed list with a number that grows, which
// ends and is signed anew before.
#pragma once

#include <cstdint>
#include <mutex>

#include "cache/store/store.h"
#include "common/base/result.h"
#include "common/plan/seal.h"
#include "common/wire/socket.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// Plans lie in the store as revoked ones do, rules and the last number in a named value of it. Not
// thread-safe but for holds(). Borrows what it is given.
class RevocationLog {
 public:
  RevocationLog(cache::Store& store, const Signer& signer) : store_(store), signer_(signer) {}

  // Reads rules and number, and signs the list. To be called once, before anything else.
  common::Status load();
  // Signs all that the store says now, under the next number; no list while nothing is revoked.
  // When nobody signs (kUnavailable), tend() comes again and the list before stays.
  common::Status sign_anew();
  // Keeps the rule, durably. kUnsupported when there are too many.
  common::Status add_rule(const common::RevocationRule& rule);
  // Signs the list anew when it is time to. Says in the log when that fails.
  void tend(int64_t wall_ns);
  // Whether a rule is about plans that were made so. Thread-safe.
  bool holds(const common::Provenance& made) const;

  // Empty and zero while nothing is revoked.
  const common::SharedBytes& signed_list() const { return signed_; }
  const common::Digest& digest() const { return digest_; }

 private:
  uint64_t delegation_number() const;
  common::Status keep(const common::RevocationList& kept);

  cache::Store& store_;
  const Signer& signer_;
  mutable std::mutex mutex_;      // of the rules
  common::RevocationList rules_;  // rules and the last number alone
  common::SharedBytes signed_;
  common::Digest digest_;
  uint64_t signed_under_ = 0;  // the delegation's number
  int64_t renew_ns_ = 0;       // when the list is signed anew
  int64_t looked_ns_ = 0;
  bool is_failing_ = false;  // the log has said so
};

}  // namespace coordinator::service
