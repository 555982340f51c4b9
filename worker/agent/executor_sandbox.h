// Which sandbox a worker's executors get: the one for their kind of device, unless the device does
// not open in it.
#pragma once

#include <functional>
#include <memory>

#include "common/sandbox/sandbox.h"

namespace worker {

// `opens` tries the device in a child of that sandbox, or without one (null), and is asked only
// where there is a driver: nobody knows what all of them need. Null, with a warning in the log,
// when the sandbox is what keeps the device from opening.
std::shared_ptr<const common::Sandbox> executor_sandbox(
    bool has_driver, const std::function<bool(const common::Sandbox*)>& opens);

}  // namespace worker
