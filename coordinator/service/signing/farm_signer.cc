#include "coordinator/service/signing/farm_signer.h"

#include <filesystem>
#include <utility>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "coordinator/service/signing/key_signer.h"
#include "coordinator/service/signing/remote_signer.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using common::Status;

namespace {

Status note_authority(const std::string& state, const Signer& signer, bool is_own_key) {
  std::string path = cat(state, "/signing.public");
  if (is_own_key) {
    std::error_code error;
    std::filesystem::remove(path, error);
    return {};
  }
  std::string text = cat(common::to_hex(signer.authority()), '\n');
  return common::write_file_atomic(path, common::as_bytes(text));
}

}  // namespace

Result<SharedSigner> signer_of(const std::string& state, const AccessOptions& options) {
  SharedSigner signer;
  bool is_own_key = false;
  if (!options.signer.empty()) {
    LFARM_ASSIGN_OR_RETURN(std::unique_ptr<RemoteSigner> remote,
                           RemoteSigner::connect(options.signer, options.signer_wait_ms));
    signer = std::move(remote);
  } else {
    std::string delegation =
        options.delegation_file.empty() ? cat(state, "/delegation") : options.delegation_file;
    LFARM_ASSIGN_OR_RETURN(std::unique_ptr<KeySigner> own,
                           KeySigner::load(cat(state, "/signing.key"), delegation));
    is_own_key = !own->delegation();
    signer = std::move(own);
  }
  LFARM_RETURN_IF_ERROR(note_authority(state, *signer, is_own_key));
  return signer;
}

}  // namespace coordinator::service
