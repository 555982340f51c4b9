// The devices of this machine by the names that --device takes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/runtime/device/device.h"

namespace common {

struct FoundDevice {
  std::string name;  // "cpu" or "cuda"
  int index = 0;     // among the machine's GPUs
  Target target;
};

// "cpu", "cuda", "cuda:1" for the second of several GPUs, or "auto": a GPU where there is one, else
// the processor. Opens nothing.
// kUnavailable says what is missing, kInvalidInput that there is no such name.
Result<FoundDevice> find_device(std::string_view name);

// The same names. `threads`: of the host, that share a run on the processor.
Result<std::unique_ptr<Device>> open_device(std::string_view name, int threads);

}  // namespace common
