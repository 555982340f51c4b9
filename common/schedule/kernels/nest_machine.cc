#include "common/schedule/kernels/nest_machine.h"

namespace common {

NestMachine::NestMachine(Machine any_such) : NestMachine(any_such, {}, {}) {
  unit = {.bytes = 64, .has_pairs = any_such == Machine::kCpuPairs};
}

NestMachine::NestMachine(Machine kind, std::string_view target, std::string_view machine_class)
    : kind(kind),
      gpu(gpu_machine_of_class(target, machine_class)),
      vectors(vector_terms_of_target(target)),
      unit(vector_unit_of(target)) {}

}  // namespace common
