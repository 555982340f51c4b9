// Has a signer's process sign (SignerServer), so that the key is not in this one's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "coordinator/service/signing/signer.h"
#include "coordinator/service/signing/signer_frames.h"

namespace coordinator::service {

class RemoteSigner final : public Signer {
 public:
  // Waits up to `wait_ms` for a signer on the socket, which says the authority. kUnavailable when
  // there is none.
  static common::Result<std::unique_ptr<RemoteSigner>> connect(const std::string& path,
                                                               int64_t wait_ms);
  const common::PublicKey& authority() const override { return authority_; }
  std::optional<common::Delegation> delegation() const override;
  // Waits for the answer, two seconds at most. kUnavailable when the signer is away or hangs; it is
  // then left alone for a second, in which all calls fail at once, and asked again.
  common::Result<common::Proof> sign(Statement statement, common::ByteView bytes) const override;

 private:
  explicit RemoteSigner(std::string path) : path_(std::move(path)) {}
  common::Result<SignAnswer> ask(const SignRequest& request) const;
  common::Result<SignAnswer> ask_once(const SignRequest& request) const;
  common::Error away(const std::string& why) const;

  const std::string path_;
  common::PublicKey authority_{};
  mutable std::mutex mutex_;
  mutable common::FileDescriptor socket_;
  mutable common::Bytes delegation_;    // encoded, as the last answer has it
  mutable int64_t rests_until_ns_ = 0;  // it was away, or hung
};

}  // namespace coordinator::service
