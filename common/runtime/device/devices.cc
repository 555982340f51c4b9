#include "common/runtime/device/devices.h"

#include <charconv>
#include <optional>

#include "common/base/cat.h"
#include "common/runtime/device/cpu_device.h"
#include "common/runtime/device/cuda_device.h"

namespace common {

namespace {

// 1 of "cuda:1", 0 of "cuda"; none of other names.
std::optional<int> cuda_index(std::string_view name) {
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "cuda") return 0;
  if (!name.starts_with(kNumbered)) return std::nullopt;
  name.remove_prefix(kNumbered.size());
  int index = -1;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  bool is_number = error == std::errc() && end == name.data() + name.size() && index >= 0;
  return is_number ? std::optional(index) : std::nullopt;
}

}  // namespace

Result<FoundDevice> find_device(std::string_view name) {
  std::optional<int> wanted = cuda_index(name);
  if (wanted || name == "auto") {
    auto target = find_cuda_target(wanted.value_or(0));
    if (target.ok()) return FoundDevice{"cuda", wanted.value_or(0), *target};
    if (wanted) return target.error();
  } else if (name != "cpu") {
    return invalid_input(cat("there is no device called '", name, "', only auto, cpu and cuda"));
  }
  return FoundDevice{"cpu", 0, host_cpu_target()};
}

Result<std::unique_ptr<Device>> open_device(std::string_view name, int threads) {
  LFARM_ASSIGN_OR_RETURN(FoundDevice found, find_device(name));
  if (found.name == "cuda") return open_cuda_device({.index = found.index});
  return make_cpu_device({threads});
}

}  // namespace common
