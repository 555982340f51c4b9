// The files of one state directory that lfarm's processes share, and who may run a farm on it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "common/base/result.h"

namespace clients {

// Nothing is created by asking for paths.
struct StateDirectory {
  std::string path;

  // Creates the directory where it is missing. kInvalidInput also says how another one is chosen.
  common::Status make() const;

  // Where the store is opened; the same directory that coordinators get.
  const std::string& store() const { return path; }
  std::string signing_key() const { return path + "/signing.key"; }
  // The key that clients of the farm trust where it is not the one above: a root key, or a
  // signer's.
  std::string signing_public() const { return path + "/signing.public"; }
  // Of the root key to the one above.
  std::string delegation() const { return path + "/delegation"; }
  std::string client_keys() const { return path + "/client_keys"; }
  // Of a farm that other machines can reach; the coordinator's names.
  std::string farm_key() const { return path + "/farm.key"; }
  // Signing keys of farms elsewhere, and what they have revoked.
  std::string known_farms() const { return path + "/known_farms"; }
  std::string revocations() const { return path + "/revocations"; }
  std::string met_farms() const { return path + "/farms"; }
  // Plans that farms gave to programs here, beside the farm's own store.
  std::string client_plans() const { return path + "/plans"; }
  // Which weights two archives were found to share.
  std::string compared_weights() const { return path + "/weights"; }
  // What plans compute of weights alone, for later processes.
  std::string prepared_weights() const { return path + "/prepared"; }
  // What farms said they cannot do.
  std::string negatives() const { return path + "/negatives"; }
  std::string allow_file() const { return path + "/allow"; }
  std::string worker_key() const { return path + "/worker.key"; }
  // Keys of workers elsewhere, one file each.
  std::string worker_keys() const { return path + "/workers"; }
  // The endpoint of the farm that `lfarm up` runs here. Meaningful while its lock is held.
  std::string endpoint_file() const { return path + "/endpoint"; }
  // The same for a farm that serves one command only, which others must not use.
  std::string private_endpoint_file() const { return path + "/endpoint.private"; }
  std::string logs() const { return path + "/logs"; }
  std::string lock_file() const { return path + "/farm.lock"; }
};

// The right to run a farm on a state directory. Released on destruction, and by the system when the
// process ends in any way.
class FarmLock {
 public:
  // Empty when another process has it. Creates the directory.
  static common::Result<std::unique_ptr<FarmLock>> try_take(const StateDirectory& state);

  // The process that runs a farm here; empty when none does.
  static std::optional<int> holder(const StateDirectory& state);

 private:
  explicit FarmLock(common::FileDescriptor file) : file_(std::move(file)) {}
  common::FileDescriptor file_;
};

// The endpoint that a file names, without white space; empty when there is none.
std::string read_endpoint(const std::string& path);

}  // namespace clients
