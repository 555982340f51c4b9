// The signer that a farm's options ask for.
#pragma once

#include <string>

#include "coordinator/service/loop/options.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// The process on the options' socket, or one that has the state directory's key and delegation in
// this process. Leaves the authority in the state directory, as "signing.public", where it is not
// the directory's own key, so that commands which look into the directory know whose plans lie
// there. kUnavailable when the other process does not answer; kInvalidInput, kCorrupt,
// kVerification as KeySigner::load().
common::Result<SharedSigner> signer_of(const std::string& state, const AccessOptions& options);

}  // namespace coordinator::service
