// Single kernels on a GPU and how long each takes, so that what the code generator writes can be
// measured without a search.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/runtime/device/device.h"
#include "worker/compile/compiler.h"

namespace bench {

// One way to compute a body.
struct Variant {
  common::Template form = common::Template::kLoops;
  common::Schedule schedule;
};
// "tile block_columns=64 block_rows=128".
std::string name_of(const Variant& variant);

struct TimedVariant {
  Variant variant;
  double us = 0;
};

// Times are medians, by the device's own timer, of runs that find the caches as the last one's
// flush left them. Inputs are random numbers in [-1, 1).
class GpuRunner {
 public:
  // kUnavailable says what is missing.
  static common::Result<std::unique_ptr<GpuRunner>> open(int runs);

  common::Machine machine() const { return common::machine_of(device_->target()); }
  // Copies so many bytes from one piece of the device's memory to another.
  common::Result<double> time_copy(size_t bytes);
  // A body of static sizes; variants that cannot be generated or launched are left out.
  // kUnsupported when none is left.
  common::Result<std::vector<TimedVariant>> time(const common::Graph& body,
                                                 const std::vector<Variant>& variants);
  // The library's product; empty where there is no library.
  common::Result<std::optional<double>> time_library(const common::GemmSizes& sizes);

 private:
  GpuRunner(std::unique_ptr<common::Device> device,
            std::shared_ptr<const worker::Compiler> compiler, int runs);
  common::Result<common::DeviceMemory> random_memory(common::DType dtype, size_t bytes);
  common::Result<double> median_us(const std::function<common::Status()>& work);

  std::unique_ptr<common::Device> device_;
  std::shared_ptr<const worker::Compiler> compiler_;
  std::unique_ptr<common::Timer> timer_;
  int runs_;
};

}  // namespace bench
