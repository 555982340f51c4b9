// A kind of device that workers drive: how its kernels are written, compiled and run. A new one is
// an implementation of this and a row in the worker's main().
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/cat.h"
#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/runtime/device/device.h"
#include "common/sandbox/sandbox.h"
#include "worker/codegen/generator.h"
#include "worker/compile/compiler.h"

namespace worker {

// Stateless and thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  // What --device calls it: "cpu".
  virtual std::string_view name() const = 0;
  // Makes number `index` the only one of several devices for this process and those that it starts.
  // To be called before anything else and before threads start. kInvalidInput without several.
  virtual common::Status choose(int index) const {
    return common::invalid_input(common::cat("there is no ", name(), " number ", index));
  }
  // What plans must be made for to run here. kUnavailable says what is missing.
  virtual common::Result<common::Target> find() const = 0;
  // The libraries that plans run with, with their versions: what an object's compiler does not say.
  virtual std::string libraries() const = 0;
  // For any target that find() may give; one without a name is written for as well as may be.
  virtual std::unique_ptr<const CodeGenerator> make_generator(
      const common::Target& target) const = 0;
  // What compilers start runs in `sandbox`, unless that is null.
  virtual common::Result<std::shared_ptr<const Compiler>> find_compiler(
      const common::Target& target, std::shared_ptr<const common::Sandbox> sandbox) const = 0;
  // Called in the executor child. `threads`: of the host that a run may use.
  virtual common::Result<std::unique_ptr<common::Device>> open(int threads) const = 0;
  // Whether candidates run on hardware behind a driver, not in the executor child itself.
  virtual bool has_driver() const { return false; }
};

// Processors with a C compiler.
const Backend& cpu_backend();
// NVIDIA GPUs with NVRTC.
const Backend& cuda_backend();

}  // namespace worker
