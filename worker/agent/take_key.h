// Gives each of many workers that are made alike, as a Deployment's pods are, a key of its own.
#pragma once

#include <string>

#include "common/base/result.h"

namespace worker {

// Of the key files (*.key) in `directory` copies one to `file`, mode 0600, in place of what was
// there: which one, `name` decides, so that workers of other names have other keys as far as there
// are enough. Prints its public key. kInvalidInput when there is no key, or when one cannot be read
// or written.
common::Status take_key(const std::string& directory, const std::string& file,
                        const std::string& name);

}  // namespace worker
