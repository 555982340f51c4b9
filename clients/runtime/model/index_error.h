// What a caller is told of an index that is out of range.
#pragma once

#include <span>

#include "clients/pt2/translate.h"
#include "common/base/result.h"
#include "common/runtime/executor/executor.h"

namespace clients {

// kOutOfRange: "input 0 ('ids'): index 99999 at position 7 is outside of [0, 256)". The value is
// said when `user_inputs`, those of the run, hold it in host memory; they may be empty.
common::Error index_error(const Model& model, const common::FailedCheck& failed,
                          std::span<const common::TensorRef> user_inputs);

}  // namespace clients
