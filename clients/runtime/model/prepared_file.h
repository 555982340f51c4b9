// A file of what a plan computes of weights alone, such as packed panels: written by one process,
// mapped by others.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"

namespace clients {

// The values of the plan, in the order in which they were written, where they lie in the file's
// bytes: each at a multiple of kBufferAlignment from the first. kCorrupt where the bytes are no
// such file, or are cut off. kInvalidInput where the values are another plan's.
common::Result<std::vector<common::ByteView>> prepared_values(common::ByteView file,
                                                              const common::Digest& plan);

// Puts such a file in place of what may be there, as a whole. `is_over`: asked every some
// megabytes, gives up. kUnavailable where the system does not take it, leaving nothing.
common::Status write_prepared(const std::string& path, const common::Digest& plan,
                              std::span<const common::ByteView> values,
                              const std::function<bool()>& is_over);

}  // namespace clients
