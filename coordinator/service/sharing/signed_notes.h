// Records that a farm's coordinators leave for one another in a store that none of them trusts: a
// proof of the farm's key, then the values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "coordinator/service/signing/signer.h"

namespace coordinator::service {

// `record`: its number, without which it could be put in another one's place. Errors are the
// signer's.
common::Result<std::string> sign_notes(const Signer& own, uint64_t record, std::string_view values);
// The values within `bytes`. kCorrupt when this farm's key has not signed them under the number.
common::Result<std::string_view> open_notes(const Signer& own, uint64_t record,
                                            std::string_view bytes);

}  // namespace coordinator::service
