#include "common/cost/kernels/device_terms.h"

#include <map>
#include <utility>

#include "common/cost/gpu_time.h"
#include "common/cost/kernels/cpu_terms.h"

namespace common {
namespace {

// PCIe 5 to the host; kernels by common/cost. Never calibrated.
DeviceTerms gpu_terms(Machine kind, const GpuMachine& machine) {
  DeviceTerms terms{};
  terms.machine = kind;
  terms.gpu = &machine;
  terms.launch.kernel_ns = kGpuLaunchNs;
  terms.host.synchronise_ns = 8'000;
  terms.host.output_byte_ns = 0.02;
  return terms;
}

// One for each row of the table of GPUs, by the kind of machine.
const DeviceTerms& gpu_terms_of(const Target& target) {
  static const std::map<std::pair<Machine, const GpuMachine*>, DeviceTerms> kTerms = [] {
    std::map<std::pair<Machine, const GpuMachine*>, DeviceTerms> terms;
    for (const GpuMachine& machine : gpu_machines()) {
      for (auto kind : {Machine::kGpu, Machine::kGpuWarpgroups}) {
        terms[{kind, &machine}] = gpu_terms(kind, machine);
      }
    }
    return terms;
  }();
  return kTerms.at({machine_of(target), &gpu_machine_of_target(target.name)});
}

}  // namespace

const DeviceTerms& device_terms(const Target& target) {
  return is_gpu(machine_of(target)) ? gpu_terms_of(target) : cpu_terms(target);
}

}  // namespace common
