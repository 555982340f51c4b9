#include "common/cost/gpu_machine.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace common {
namespace {

constexpr double kKiB = 1024, kMiB = 1024 * kKiB;

// On an H100 products of single warps reach 0.63 of the peak (Luo et al., arXiv:2402.13499). A B200
// is taken to have the same rate by processor; no figure is known.
constexpr double kHopperWarps = 0.63, kBlackwellWarps = 0.28;

// NVIDIA's data sheets and architecture papers.
constexpr GpuMachine kMachines[] = {
    {"B200", "cuda-sm_100", 148, 1.965, 7700, 126 * kMiB, 227 * kKiB, 75e3, 2250e3,
     kBlackwellWarps},
    {"H100 SXM", "cuda-sm_90a", 132, 1.755, 3350, 50 * kMiB, 227 * kKiB, 67e3, 989e3, kHopperWarps},
    {"H200", "cuda-sm_90a", 132, 1.785, 4800, 50 * kMiB, 227 * kKiB, 67e3, 989e3, kHopperWarps},
    {"H100 NVL", "cuda-sm_90a", 132, 1.785, 3900, 50 * kMiB, 227 * kKiB, 60e3, 835e3, kHopperWarps},
    {"H100 PCIe", "cuda-sm_90a", 114, 1.755, 2000, 50 * kMiB, 227 * kKiB, 51e3, 756e3,
     kHopperWarps},
    {"H100", "cuda-sm_90a", 132, 1.755, 3350, 50 * kMiB, 227 * kKiB, 67e3, 989e3, kHopperWarps},
    {"L40S", "cuda-sm_89", 142, 2.52, 864, 96 * kMiB, 99 * kKiB, 91.6e3, 362e3},
    {"L40", "cuda-sm_89", 142, 2.49, 864, 96 * kMiB, 99 * kKiB, 90.5e3, 181e3},
    {"RTX 4090", "cuda-sm_89", 128, 2.52, 1008, 72 * kMiB, 99 * kKiB, 82.6e3, 165e3},
    {"L4", "cuda-sm_89", 58, 2.04, 300, 48 * kMiB, 99 * kKiB, 30.3e3, 121e3},
    {"A10G", "cuda-sm_86", 80, 1.71, 600, 6 * kMiB, 99 * kKiB, 35e3, 70e3},
    {"A10", "cuda-sm_86", 72, 1.695, 600, 6 * kMiB, 99 * kKiB, 31.2e3, 125e3},
    {"A100 80GB PCIe", "cuda-sm_80", 108, 1.41, 1935, 40 * kMiB, 163 * kKiB, 19.5e3, 312e3},
    {"A100-PCIE-40GB", "cuda-sm_80", 108, 1.41, 1555, 40 * kMiB, 163 * kKiB, 19.5e3, 312e3},
    {"A100-SXM4-40GB", "cuda-sm_80", 108, 1.41, 1555, 40 * kMiB, 163 * kKiB, 19.5e3, 312e3},
    {"A100", "cuda-sm_80", 108, 1.41, 2039, 40 * kMiB, 163 * kKiB, 19.5e3, 312e3},
    {"T4", "cuda-sm_75", 40, 1.59, 320, 4 * kMiB, 64 * kKiB, 8.1e3, 65e3},
    {"V100", "cuda-sm_70", 80, 1.53, 900, 6 * kMiB, 96 * kKiB, 15.7e3, 125e3},
};

bool is_word_end(std::string_view name, size_t at) {
  return at >= name.size() || std::isalnum(static_cast<unsigned char>(name[at])) == 0;
}

// 90 of "cuda-sm_90a"; 0 where there is no number.
int architecture(std::string_view target) {
  int number = 0;
  size_t at = target.find("sm_");
  if (at == std::string_view::npos) return number;
  std::string_view digits = target.substr(at + 3);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Of any GPU; a class is a text that a worker sends.
constexpr int kProcessorsMax = 1024;

}  // namespace

bool warpgroups_multiply(std::string_view target) { return target == "cuda-sm_90a"; }

bool launches_overlap(std::string_view target) { return architecture(target) >= 90; }

std::span<const GpuMachine> gpu_machines() { return kMachines; }

const GpuMachine* find_gpu_machine(std::string_view name) {
  for (const GpuMachine& machine : kMachines) {
    size_t at = name.find(machine.name);
    if (at != std::string_view::npos && is_word_end(name, at + machine.name.size())) {
      return &machine;
    }
  }
  return nullptr;
}

const GpuMachine& gpu_machine_of_target(std::string_view target) {
  int wanted = architecture(target);
  for (const GpuMachine& machine : kMachines) {
    if (machine.target == target) return machine;
  }
  const GpuMachine* nearest = nullptr;
  for (const GpuMachine& machine : kMachines) {
    int number = architecture(machine.target);
    if (number > wanted) continue;
    if (nearest == nullptr || number > architecture(nearest->target)) nearest = &machine;
  }
  // A target without an architecture, "cuda", is any GPU's.
  return nearest == nullptr ? *find_gpu_machine("H100 SXM") : *nearest;
}

GpuMachine gpu_machine_of_class(std::string_view target, std::string_view machine_class) {
  const GpuMachine* product = find_gpu_machine(machine_class);
  GpuMachine machine = product == nullptr ? gpu_machine_of_target(target) : *product;
  size_t end = machine_class.find(" SMs");
  if (end == std::string_view::npos) return machine;
  size_t begin = machine_class.rfind(' ', end - 1);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  int processors = 0;
  std::from_chars(machine_class.data() + begin, machine_class.data() + end, processors);
  if (processors > 0) machine.processors = std::min(processors, kProcessorsMax);
  return machine;
}

}  // namespace common
