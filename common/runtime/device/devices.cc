#include "common/runtime/device/devices.h"

#include <charconv>
#include <optional>
#include <utility>

#include "common/base/cat.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/device/cuda_device.h"

namespace common {

std::string_view device_family(std::string_view name) { return name.substr(0, name.find(':')); }

std::optional<int> device_number(std::string_view name) {
  std::string_view family = device_family(name);
  if (family.size() == name.size()) return std::nullopt;
  name.remove_prefix(family.size() + 1);
  int index = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  bool is_number = error == std::errc() && end == name.data() + name.size() && index >= 0;
  return is_number ? std::optional(index) : std::nullopt;
}

bool is_device_name(std::string_view name) {
  if (name == "auto" || name == "cpu" || name == "cuda") return true;
  return device_family(name) == "cuda" && device_number(name);
}

Result<FoundDevice> find_device(std::string_view name) {
  if (!is_device_name(name)) {
    return invalid_input(cat("there is no device called '", name,
                             "', only auto, cpu, cuda and, for ", "the second GPU, cuda:1"));
  }
  if (name != "cpu") {
    int index = device_number(name).value_or(0);
    auto target = find_cuda_target(index);
    if (target.ok()) return FoundDevice{"cuda", index, *target};
    if (name != "auto") return target.error();
  }
  return FoundDevice{"cpu", 0, host_cpu_target()};
}

Result<std::unique_ptr<Device>> open_device(std::string_view name, int threads,
                                            DeviceAllocator allocator) {
  LFARM_ASSIGN_OR_RETURN(FoundDevice found, find_device(name));
  if (found.name == "cuda") {
    return open_cuda_device({.index = found.index, .allocator = std::move(allocator)});
  }
  return make_cpu_device({.threads = threads, .shares_openmp = true});
}

}  // namespace common
