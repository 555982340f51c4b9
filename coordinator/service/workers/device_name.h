// What the workers of one target and machine class are called together. The scheduler hands out
// tasks and the store keeps measurements by this name, so that classes of one target never mix.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/cat.h"

namespace coordinator::service {

// Neither a target nor a class holds one, so that different pairs have different names.
inline constexpr char kDeviceMark = '\t';

// Workers of earlier releases do not say their class and share one, whose name is the target's.
inline std::string device_name(const std::string& target, const std::string& machine) {
  return machine.empty() ? target : common::cat(target, kDeviceMark, machine);
}

// The target in a device's name.
inline std::string target_of_device(const std::string& device) {
  return device.substr(0, device.find(kDeviceMark));
}

// How many characters two classes have in common from the left, where what matters most stands. Of
// several plans found on other classes the one of the largest likeness is served.
inline size_t class_likeness(std::string_view a, std::string_view b) {
  size_t same = 0;
  while (same < std::min(a.size(), b.size()) && a[same] == b[same]) ++same;
  return same;
}

}  // namespace coordinator::service
