// The farms' lists of revoked plans as a client keeps them, so that copies on its disk are refused
// too while no farm is there.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/plan/seal.h"

namespace clients {

// A file a farm, named by its signing key, with the list as the farm signed it; where replicas of a
// farm have signed lists of which none holds the other, a file each. Not thread-safe.
class Revocations {
 public:
  explicit Revocations(std::string directory) : directory_(std::move(directory)) {}
  // All that was learned; empty when there was nothing. kVerification or kCorrupt when the file is
  // not what the farm signed.
  common::Result<common::RevocationList> known(const common::PublicKey& farm) const;
  // The list last learned, as the farm signed it; empty when there was none.
  common::Result<std::string> signed_list(const common::PublicKey& farm) const;
  // Checks a list that came from the farm and keeps it unless all of it is known: what was revoked
  // stays so. Returns what is in force. That it cannot be kept is a warning.
  common::Result<common::RevocationList> learn(const common::PublicKey& farm,
                                               common::ByteView signed_list) const;

 private:
  std::string path_of(const common::PublicKey& farm) const;
  common::Status keep(const common::PublicKey& farm, common::ByteView signed_list,
                      bool replaces_all) const;
  std::vector<std::string> paths_of(const common::PublicKey& farm) const;
  std::string directory_;
};

}  // namespace clients
