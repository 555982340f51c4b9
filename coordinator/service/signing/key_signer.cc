#include "coordinator/service/signing/key_signer.h"

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;
using common::Delegation;
using common::Result;
using common::Status;

namespace {

Status belongs(const Delegation& delegation, const common::SigningKey& key,
               const common::PublicKey& root, const std::string& file) {
  if (delegation.key != key.public_key()) {
    return common::Error{common::Code::kVerification,
                         cat(file, " delegates to ", common::to_hex(delegation.key),
                             ", and the signing key is ", common::to_hex(key.public_key()))};
  }
  // Whether it has ended is looked at with each signature.
  return common::check_delegation(delegation, root, delegation.from_ns);
}

}  // namespace

Result<common::Sealed> seal(const Signer& signer, Statement statement, common::Bytes bytes) {
  LFARM_ASSIGN_OR_RETURN(common::Proof proof, signer.sign(statement, bytes));
  return common::sealed_by(signer.authority(), std::move(proof), std::move(bytes));
}

KeySigner::KeySigner(const common::SigningKey& key, const Delegation& delegation,
                     const std::string& file)
    : key_(key),
      authority_(delegation.root),
      watch_(std::in_place, file),
      delegation_(delegation) {}

Result<std::unique_ptr<KeySigner>> KeySigner::load(const std::string& key_file,
                                                   const std::string& delegation_file) {
  LFARM_ASSIGN_OR_RETURN(common::SigningKey key, common::load_or_create_signing_key(key_file));
  if (delegation_file.empty() || !common::file_exists(delegation_file)) {
    return std::make_unique<KeySigner>(key);
  }
  LFARM_ASSIGN_OR_RETURN(Delegation delegation, common::read_delegation_file(delegation_file));
  LFARM_RETURN_IF_ERROR(belongs(delegation, key, delegation.root, delegation_file));
  return std::unique_ptr<KeySigner>(new KeySigner(key, delegation, delegation_file));
}

Status KeySigner::refresh() const {
  LFARM_ASSIGN_OR_RETURN(Delegation next, common::read_delegation_file(watch_->path()));
  LFARM_RETURN_IF_ERROR(belongs(next, key_, authority_, watch_->path()));
  if (next.number < delegation_->number) {
    return common::invalid_input(cat(watch_->path(), " is an earlier delegation than the present"));
  }
  delegation_ = next;
  return {};
}

Delegation KeySigner::current() const {
  std::lock_guard lock(mutex_);
  if (watch_->changed(common::SteadyClock().now_ns())) {
    Status status = refresh();
    if (!status.ok()) {
      common::log_error(cat("the delegation stays as it was: ", status.error().message));
    }
  }
  return *delegation_;
}

std::optional<Delegation> KeySigner::delegation() const {
  return watch_ ? std::optional(current()) : std::nullopt;
}

Result<common::Proof> KeySigner::sign(Statement statement, common::ByteView bytes) const {
  LFARM_ASSIGN_OR_RETURN(common::Digest content, content_of(statement, bytes));
  common::Proof proof;
  if (watch_) {
    Delegation delegation = current();
    // As long as clients take it whatever their clocks say, so without their patience.
    if (common::wall_clock_ns() >= delegation.until_ns) {
      return common::unavailable(cat("nobody signs: the delegation in ", watch_->path(),
                                     " has ended; 'lfarm keys delegate' makes another"));
    }
    proof.delegation = common::encode_delegation(delegation);
  }
  proof.signature = common::sign(key_, content.bytes);
  return proof;
}

}  // namespace coordinator::service
