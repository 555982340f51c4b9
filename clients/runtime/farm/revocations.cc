#include "clients/runtime/farm/revocations.h"

#include <algorithm>
#include <filesystem>

#include "common/base/cat.h"
#include "common/base/clock.h"
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
  // Lists hold for ever: the delegation of one that is kept may have ended.
  LFARM_RETURN_IF_ERROR(common::check_revocations(outer, farm, common::time_of(outer)));
  LFARM_ASSIGN_OR_RETURN(common::RevocationList list, common::decode_revocations(outer.bytes));
  auto delegation = common::decode_delegation(outer.delegation);
  if (delegation.ok()) list.oldest_delegation = delegation->oldest_valid;
  return list;
}

// Whether the list says all that is known.
bool holds_all_of(const common::RevocationList& list, const common::RevocationList& all) {
  return !common::RevocationList(list).add(all);
}

// Whether the list is one that its farm gives out now.
Status check_fresh(const common::RevocationList& list, common::ByteView signed_list,
                   const common::PublicKey& farm) {
  LFARM_ASSIGN_OR_RETURN(common::Sealed outer, common::decode_sealed(signed_list));
  LFARM_RETURN_IF_ERROR(common::check_revocations(outer, farm));
  constexpr int64_t kClockSkewNs = int64_t{300} * 1'000'000'000;
  if (list.until_ns == 0 || common::wall_clock_ns() <= list.until_ns + kClockSkewNs) return {};
  return common::Error{common::Code::kVerification,
                       cat("the farm's revocation list ", list.number,
                           " is an old one: farms sign theirs anew in time; look at the farm, its "
                           "signer, and this machine's clock")};
}

}  // namespace

std::string Revocations::path_of(const common::PublicKey& farm) const {
  return cat(directory_, "/", common::to_hex(farm));
}

std::vector<std::string> Revocations::paths_of(const common::PublicKey& farm) const {
  std::vector<std::string> paths;
  std::string name = common::to_hex(farm);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    std::string file = entry.path().filename();
    if (file == name || file.starts_with(name + '-')) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<common::RevocationList> Revocations::known(const common::PublicKey& farm) const {
  common::RevocationList all;
  for (const std::string& path : paths_of(farm)) {
    LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path, common::kEnvelopeBytesMax));
    auto list = open_list(common::as_bytes(text), farm);
    if (!list.ok()) {
      return common::Error{list.error().code, cat(path, ": ", list.error().message,
                                                  "; remove it, and the next pull brings another")};
    }
    all.add(*list);
  }
  return all;
}

// A list that the new one does not replace is kept beside it.
Status Revocations::keep(const common::PublicKey& farm, common::ByteView signed_list,
                         bool replaces_all) const {
  std::error_code error;
  std::string path = path_of(farm);
  std::vector<std::string> others = paths_of(farm);
  if (!replaces_all && common::file_exists(path)) {
    LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path, common::kEnvelopeBytesMax));
    std::filesystem::rename(
        path, cat(path, '-', common::digest_of(common::as_bytes(text)).short_hex()), error);
  }
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(path, signed_list));
  for (const std::string& other : others) {
    if (replaces_all && other != path) std::filesystem::remove(other, error);
  }
  return {};
}

Result<std::string> Revocations::signed_list(const common::PublicKey& farm) const {
  std::string path = path_of(farm);
  if (!common::file_exists(path)) return std::string();
  return common::read_file(path, common::kEnvelopeBytesMax);
}

Result<common::RevocationList> Revocations::learn(const common::PublicKey& farm,
                                                  common::ByteView signed_list) const {
  LFARM_ASSIGN_OR_RETURN(common::RevocationList list, open_list(signed_list, farm));
  LFARM_RETURN_IF_ERROR(check_fresh(list, signed_list, farm));
  LFARM_ASSIGN_OR_RETURN(common::RevocationList before, known(farm));
  common::RevocationList all = before;
  if (!all.add(list)) return all;
  Status kept = common::make_directories(directory_);
  if (kept.ok()) kept = keep(farm, signed_list, holds_all_of(list, all));
  // In force for this process all the same.
  if (!kept.ok()) {
    common::log_warning(cat("cannot note which plans were revoked: ", kept.error().message));
  }
  return all;
}

}  // namespace clients
