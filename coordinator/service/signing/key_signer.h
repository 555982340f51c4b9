// Signs with a key in this process's memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "coordinator/service/loop/file_watch.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

class KeySigner final : public Signer {
 public:
  // Without a delegation: the key is the one that clients trust.
  explicit KeySigner(const common::SigningKey& key) : key_(key), authority_(key.public_key()) {}
  // Reads the key's file, or creates it when it is missing, and the delegation's where there is
  // one: a file that is replaced later is taken up with the next signature, and one that is of
  // another root, for another key or not in force leaves the one before. kInvalidInput, kCorrupt as
  // the files' readers; kVerification when the delegation is not this key's.
  static common::Result<std::unique_ptr<KeySigner>> load(const std::string& key_file,
                                                         const std::string& delegation_file);

  const common::PublicKey& authority() const override { return authority_; }
  std::optional<common::Delegation> delegation() const override;
  // kUnavailable once the delegation has ended.
  common::Result<common::Proof> sign(Statement statement, common::ByteView bytes) const override;

 private:
  KeySigner(const common::SigningKey& key, const common::Delegation& delegation,
            const std::string& file);
  common::Status refresh() const;
  common::Delegation current() const;

  const common::SigningKey key_;
  const common::PublicKey authority_;
  mutable std::mutex mutex_;
  mutable std::optional<FileWatch> watch_;                // of the delegation's file; empty: none
  mutable std::optional<common::Delegation> delegation_;  // in force, or the last one that was
};

}  // namespace coordinator::service
