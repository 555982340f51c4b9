// The machine that nests and tilings are chosen for.
#pragma once

#include <string_view>

#include "common/cost/gpu_machine.h"
#include "common/cost/vector_terms.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/kernels/vector_unit.h"

namespace common {

struct NestMachine {
  // A kind alone stands for a typical machine of it.
  NestMachine(Machine any_such);  // NOLINT(google-explicit-constructor)
  // One of the target's, of this class (machine_class.h), or a typical one where that says nothing.
  NestMachine(Machine kind, std::string_view target, std::string_view machine_class);
  Machine kind;
  GpuMachine gpu;       // of no meaning for a processor
  VectorTerms vectors;  // of no meaning for a GPU,
  VectorUnit unit;      // likewise
};

}  // namespace common
