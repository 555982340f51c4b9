// Who signs for a farm: this process with the key in its memory (KeySigner), or another process
// that alone has it (RemoteSigner).
#pragma once

#include <memory>
#include <optional>

#include "common/base/signing.h"
#include "common/plan/delegation.h"
#include "common/plan/seal.h"
#include "coordinator/service/signing/statements.h"

namespace coordinator::service {

class Signer {
 public:
  virtual ~Signer() = default;
  // The key that clients trust, which also names the farm in stores that it shares with others: the
  // signing key itself, or the root key that has delegated to it. Never another one in this life.
  virtual const common::PublicKey& authority() const = 0;
  // Under which it signs, as far as is known here; empty where the authority signs itself.
  // Thread-safe.
  virtual std::optional<common::Delegation> delegation() const = 0;
  // Thread-safe. kUnavailable when nobody signs now: the caller may come again; kInvalidInput when
  // the bytes are not what `statement` says.
  virtual common::Result<common::Proof> sign(Statement statement, common::ByteView bytes) const = 0;
};

// Coordinators' parts share one.
using SharedSigner = std::shared_ptr<const Signer>;

// Signs the bytes and puts both together.
common::Result<common::Sealed> seal(const Signer& signer, Statement statement, common::Bytes bytes);

}  // namespace coordinator::service
