// Files that hold secret keys: nobody but their owner may read them, and nothing overwrites them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace common {

// The whole file. kInvalidInput when it cannot be read, is larger than `bytes_max`, or when its
// mode lets others than its owner read or write it.
Result<std::string> read_secret_file(const std::string& path, size_t bytes_max);

// Creates the file with mode 0600, whole or not at all, also on a machine that loses power.
// kInvalidInput when there is one already.
Status create_secret_file(const std::string& path, std::string_view content);

}  // namespace common
