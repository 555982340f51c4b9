// Keys of a farm that other machines can reach: made when it first starts, and known to each other.
#pragma once

#include <string>

#include "clients/runtime/farm/state_directory.h"
#include "common/base/result.h"
#include "common/wire/security.h"

namespace clients {

// Makes the farm's, its workers' and this user's key pairs where they are missing, and puts the
// latter two on the farm's allow-list. Entries that are there stay as they are. Returns the farm's
// public key.
common::Result<std::string> prepare_farm_keys(const StateDirectory& state);

// As many keys of workers, in files of their own (StateDirectory::worker_keys), and on the
// allow-list. Those that are there stay.
common::Status prepare_worker_keys(const StateDirectory& state, int64_t count);

// A public CURVE key: the 40 characters themselves, or what is in a file that save_key_pair() made.
// kInvalidInput when it is neither.
common::Result<std::string> find_public_key(const std::string& text);

// Changes to a farm's allow-list: whole or not at all, one process at a time, and comments stay. A
// coordinator that runs takes them up within a second.
class AllowFile {
 public:
  explicit AllowFile(std::string path) : path_(std::move(path)) {}
  // Gives the key this tenant and these roles, whatever it had before. Creates the file.
  common::Status grant(const std::string& public_key, const common::Principal& principal) const;
  // Gives the tenant this policy in place of the one it had.
  common::Status set_policy(const std::string& tenant, const common::TenantPolicy& policy) const;
  // kInvalidInput when the key is not on the list.
  common::Status revoke(const std::string& public_key) const;
  // Empty when there is no file.
  common::Result<common::AllowList> read() const;

 private:
  common::Status rewrite(const std::string& begin, const std::string& line) const;
  std::string path_;
};

}  // namespace clients
