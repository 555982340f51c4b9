// Gives kernels the nests that their code is printed from.
#pragma once

#include <optional>
#include <unordered_map>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"

namespace common {

// What the schedule asks for and, where it asks for nothing, what is expected to take least on such
// a machine. Empty for kernels that their template computes without loops of this kind, and for
// library calls. Deterministic. kUnsupported when the code would grow out of bounds.
Result<std::optional<LoopNest>> kernel_nest(const Kernel& kernel, Machine machine);

// Gives every kernel that has no nest its own; those that could not get one stay without.
void add_nests(Program& program, Machine machine);

// The same for many programs with kernels in common: each nest is chosen once. Not thread-safe.
class NestMemo {
 public:
  explicit NestMemo(Machine machine) : machine_(machine) {}
  void add(Program& program);

 private:
  Machine machine_;
  std::vector<LoopNest> part_nests(const Kernel& kernel);

  std::unordered_map<Digest, std::optional<LoopNest>> known_;  // by the kernel without its nest
  std::unordered_map<Digest, std::vector<LoopNest>> known_parts_;
};

}  // namespace common
