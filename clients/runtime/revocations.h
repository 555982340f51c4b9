// The farms' lists of revoked plans as a client keeps them, so that copies on its disk are refused
// too while no farm is there.
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/plan/seal.h"

namespace clients {

// A file a farm, named by its signing key, with the list as the farm signed it. Not thread-safe.
class Revocations {
 public:
  explicit Revocations(std::string directory) : directory_(std::move(directory)) {}
  // The list last learned; empty when there was none. kVerification or kCorrupt when the file is
  // not what the farm signed.
  common::Result<common::RevocationList> known(const common::PublicKey& farm) const;
  // The same as the farm signed it; empty when there was none.
  common::Result<std::string> signed_list(const common::PublicKey& farm) const;
  // Checks a list that came from the farm and keeps it, unless a longer one is known: lists only
  // grow. Returns the one in force. That it cannot be kept is a warning.
  common::Result<common::RevocationList> learn(const common::PublicKey& farm,
                                               common::ByteView signed_list) const;

 private:
  std::string path_of(const common::PublicKey& farm) const;
  std::string directory_;
};

}  // namespace clients
