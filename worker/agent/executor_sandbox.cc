#include "worker/agent/executor_sandbox.h"

#include "common/base/log.h"
#include "worker/profile/device_lock.h"

namespace worker {

std::shared_ptr<const common::Sandbox> executor_sandbox(
    bool has_driver, const std::function<bool(const common::Sandbox*)>& opens) {
  using common::Sandbox;
  using common::SandboxProfile;
  common::SandboxFiles files;
  if (!has_driver) {
    files.readable = {DeviceLock::kDirectory};
    return Sandbox::find(SandboxProfile::kComputing, files);
  }
  files.writable = {DeviceLock::kDirectory};
  auto sandbox = Sandbox::find(SandboxProfile::kDevice, files);
  if (opens(sandbox.get())) return sandbox;
  files.by_rules = false;
  auto without_rules = Sandbox::find(SandboxProfile::kDevice, files);
  if (opens(without_rules.get())) {
    common::log_warning("the device does not open under file rules: executors go without these");
    return without_rules;
  }
  // A device that opens nowhere is not the sandbox's doing.
  if (!opens(nullptr)) return sandbox;
  common::log_warning("the device does not open in a sandbox: executors are not confined");
  return nullptr;
}

}  // namespace worker
