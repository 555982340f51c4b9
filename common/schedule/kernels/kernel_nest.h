// Gives kernels the nests and tilings that their code is printed from.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/kernels/nest_machine.h"

namespace common {

// What the schedule asks for and, where it asks for nothing, what is expected to take least on such
// a machine. Empty for kernels that their template computes without loops of this kind, and for
// library calls. Deterministic. kUnsupported when the code would grow out of bounds.
Result<std::optional<LoopNest>> kernel_nest(const Kernel& kernel, const NestMachine& machine);

// Gives every kernel that has no nest or no tiling its own; those that could not get one stay
// without.
void add_nests(Program& program, const NestMachine& machine);
// Of one kernel. kUnsupported when the code of its nest would grow out of bounds.
Status add_nest(Kernel& kernel, const NestMachine& machine);

// The same for many programs with kernels in common: each is chosen once. Not thread-safe.
class NestMemo {
 public:
  explicit NestMemo(NestMachine machine) : machine_(machine) {}
  void add(Program& program);
  // `kernels`: their fingerprints, in the program's order.
  void add(Program& program, std::span<const Digest> kernels);

 private:
  std::vector<LoopNest> part_nests(const Kernel& kernel, const Digest& fingerprint);

  struct Choice {
    std::optional<LoopNest> nest;
    std::optional<Tiling> tiling;
  };
  NestMachine machine_;
  std::unordered_map<Digest, Choice> known_;  // by the kernel without its nest
  std::unordered_map<Digest, std::vector<LoopNest>> known_parts_;
};

}  // namespace common
