#include "clients/runtime/revocations.h"

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"
#include "common/wire/limits.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

Result<common::RevocationList> open_list(common::ByteView signed_list,
                                         const common::PublicKey& farm) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(signed_list));
  LFARM_RETURN_IF_ERROR(common::check_revocations(outer, farm));
  return common::decode_revocations(outer.bytes);
}

}  // namespace

std::string Revocations::path_of(const common::PublicKey& farm) const {
  return cat(directory_, "/", common::to_hex(farm));
}

Result<common::RevocationList> Revocations::known(const common::PublicKey& farm) const {
  std::string path = path_of(farm);
  if (!common::file_exists(path)) return common::RevocationList{};
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path, common::kEnvelopeBytesMax));
  auto list = open_list(common::as_bytes(text), farm);
  if (list.ok()) return list;
  return common::Error{list.error().code, cat(path, ": ", list.error().message,
                                              "; remove it, and the next pull brings another")};
}

Result<std::string> Revocations::signed_list(const common::PublicKey& farm) const {
  std::string path = path_of(farm);
  if (!common::file_exists(path)) return std::string();
  return common::read_file(path, common::kEnvelopeBytesMax);
}

Result<common::RevocationList> Revocations::learn(const common::PublicKey& farm,
                                                  common::ByteView signed_list) const {
  LFARM_ASSIGN_OR_RETURN(common::RevocationList list, open_list(signed_list, farm));
  LFARM_ASSIGN_OR_RETURN(common::RevocationList before, known(farm));
  if (before.plans.size() >= list.plans.size()) return before;
  Status kept = common::make_directories(directory_);
  if (kept.ok()) kept = common::write_file_atomic(path_of(farm), signed_list);
  // In force for this process all the same.
  if (!kept.ok()) {
    common::log_warning(cat("cannot note which plans were revoked: ", kept.error().message));
  }
  return list;
}

}  // namespace clients
