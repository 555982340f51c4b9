#include "worker/agent/executor_sandbox.h"

#include "common/base/log.h"

namespace worker {

std::shared_ptr<const common::Sandbox> executor_sandbox(
    bool has_driver, const std::function<bool(const common::Sandbox*)>& opens) {
  if (!has_driver) return common::Sandbox::find(common::SandboxProfile::kComputing);
  auto sandbox = common::Sandbox::find(common::SandboxProfile::kDevice);
  // A device that opens nowhere is not the sandbox's doing.
  if (opens(sandbox.get()) || !opens(nullptr)) return sandbox;
  common::log_warning("the device does not open in a sandbox: executors are not confined");
  return nullptr;
}

}  // namespace worker
