// Gives kernels the nests that their code is printed from.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "common/base/result.h"
#include "common/cost/gpu_machine.h"
#include "common/cost/vector_terms.h"
#include "common/ir/llir/llir.h"

namespace common {

// What nests are chosen for.
struct NestMachine {
  // A kind alone stands for a typical machine of it.
  NestMachine(Machine any_such);  // NOLINT(google-explicit-constructor)
  // One of the target's, of this class (machine_class.h), or a typical one where that says nothing.
  NestMachine(Machine kind, std::string_view target, std::string_view machine_class);
  Machine kind;
  GpuMachine gpu;       // of no meaning for a processor
  VectorTerms vectors;  // of no meaning for a GPU
};

// What the schedule asks for and, where it asks for nothing, what is expected to take least on such
// a machine. Empty for kernels that their template computes without loops of this kind, and for
// library calls. Deterministic. kUnsupported when the code would grow out of bounds.
Result<std::optional<LoopNest>> kernel_nest(const Kernel& kernel, const NestMachine& machine);

// Gives every kernel that has no nest its own; those that could not get one stay without.
void add_nests(Program& program, const NestMachine& machine);

// The same for many programs with kernels in common: each nest is chosen once. Not thread-safe.
class NestMemo {
 public:
  explicit NestMemo(NestMachine machine) : machine_(machine) {}
  void add(Program& program);
  // `kernels`: their fingerprints, in the program's order.
  void add(Program& program, std::span<const Digest> kernels);

 private:
  std::vector<LoopNest> part_nests(const Kernel& kernel, const Digest& fingerprint);

  NestMachine machine_;
  std::unordered_map<Digest, std::optional<LoopNest>> known_;  // by the kernel without its nest
  std::unordered_map<Digest, std::vector<LoopNest>> known_parts_;
};

}  // namespace common
