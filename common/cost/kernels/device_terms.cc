#include "common/cost/kernels/device_terms.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "common/cost/gpu_time.h"
#include "common/cost/kernels/cpu_terms.h"

namespace common {
namespace {

// PCIe 5 to the host; kernels by common/cost. Never calibrated.
struct GpuTerms {
  GpuTerms(Machine kind, const GpuMachine& priced) : machine(priced) {
    terms.machine = kind;
    terms.gpu = &machine;
    terms.launch.kernel_ns = kGpuLaunchNs;
    terms.host.synchronise_ns = 8'000;
    terms.host.output_byte_ns = 0.02;
  }
  const GpuMachine machine;
  DeviceTerms terms{};
};

const DeviceTerms& gpu_terms(Machine kind, const GpuMachine& machine) {
  using Key = std::tuple<Machine, std::string_view, double>;
  static std::mutex mutex;
  static std::map<Key, std::unique_ptr<const GpuTerms>> known;
  std::lock_guard lock(mutex);
  auto& terms = known[{kind, machine.name, machine.processors}];
  if (terms == nullptr) terms = std::make_unique<const GpuTerms>(kind, machine);
  return terms->terms;
}

}  // namespace

const DeviceTerms& device_terms(const Target& target, std::string_view machine_class) {
  const Machine kind = machine_of(target);
  if (!is_gpu(kind)) return cpu_terms(target);
  return gpu_terms(kind, gpu_machine_of_class(target.name, machine_class));
}

}  // namespace common
