// The device of tests/device/paper_backend.h.
#pragma once

#include <memory>

#include "common/runtime/device/device.h"

namespace paper {

// Objects are texts: for each kernel its name, a line "{", its body as common::print writes it, and
// a line "}".
std::unique_ptr<common::Device> open_device();

}  // namespace paper
