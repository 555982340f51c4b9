// The devices of this machine by the names that --device takes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/runtime/device/device.h"
#include "common/runtime/device/device_allocator.h"

namespace common {

// "cuda" of "cuda:1".
std::string_view device_family(std::string_view name);
// 1 of "cuda:1"; none where the name has no number.
std::optional<int> device_number(std::string_view name);
// Whether find_device() takes the name, on whatever machine.
bool is_device_name(std::string_view name);

struct FoundDevice {
  std::string name;  // "cpu" or "cuda"
  int index = 0;     // among the machine's GPUs
  Target target;
};

// "cpu", "cuda", "cuda:1" for the second of several GPUs, or "auto": a GPU where there is one, else
// the processor. Opens nothing.
// kUnavailable says what is missing, kInvalidInput that there is no such name.
Result<FoundDevice> find_device(std::string_view name);

// The same names. `threads`: of the host, that share a run on the processor; those of the
// process's OpenMP runtime, where it has one. `allocator`: of a GPU's memory.
Result<std::unique_ptr<Device>> open_device(std::string_view name, int threads,
                                            DeviceAllocator allocator = {});

}  // namespace common
