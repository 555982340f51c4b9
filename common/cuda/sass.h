// Decodes the machine code of a cubin as far as a kernel's speed follows from it: what kind each
// instruction is, how wide its access, which loads are under way together, and where loops are.
//
// Instructions of 16 bytes (sm_70 to sm_100). NVIDIA documents no encodings; those used here are
// the opcode in the lowest 9 bits, the guard in bits 12 to 15, an access' width in bits 73 to 75,
// the clocks until the next instruction may begin in bits 105 to 108, the scoreboard that a load
// sets in bits 110 to 112, those that an instruction waits for in bits 116 to 121, and of a wait
// for copies the groups that may be left in bits 38 to 43. A warpgroup product that ends a group
// has 0 in bits 84 to 86, and a wait for products bit 47 with the groups that may be left in bits
// 72 to
// 77. Tests compile kernels of known content
// and look for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace common {

enum class SassClass : uint8_t {
  kArithmetic,  // integers, moves, selections, permutations, conversions within the same pipe
  kFloat,       // float32 and pairs of float16 or bfloat16
  kDouble,
  kFunction,  // of the special function unit, conversions of width included
  kTensor,
  kGlobalLoad,
  kGlobalStore,
  kAtomic,
  kAsyncCopy,  // from global to shared memory
  kBoxCopy,    // the same by the copy engine, for one thread
  kSharedLoad,
  kSharedStore,
  kLocalLoad,  // of a thread's own memory: spills, and arrays that are indexed at run time
  kLocalStore,
  kConstantLoad,
  kShuffle,
  kBarrier,  // of a block
  kBranch,
  kCall,     // of a function that was not inlined, such as a 64-bit division
  kUniform,  // of the scalar pipe that a warp's threads share
  kOther
};
inline constexpr int kSassClassCount = 21;
std::string_view sass_class_name(SassClass kind);

struct SassInstruction {
  uint16_t opcode = 0;  // 9 bits
  SassClass kind = SassClass::kOther;
  uint8_t bytes = 0;       // that a lane moves between memory and registers
  uint8_t stall = 0;       // clocks until the warp's next instruction may begin, at least
  int8_t scoreboard = -1;  // set until the value is there; -1: none
  uint8_t waits = 0;       // a bit a scoreboard
  int64_t target = -1;     // of a branch: an instruction's number; -1: none, or not in the kernel
  bool is_conditional = false;  // some threads, or warps, leave it out
  bool is_reached = false;      // from the kernel's entry, not by a call
  bool ends_copies = false;     // it ends a group of asynchronous copies
  int8_t copies_left = -1;      // it waits until so many groups are under way; -1: it does not
  // The same of a warpgroup's products.
  bool ends_products = false;
  int8_t products_left = -1;
};

// Instructions [first, last], of which the last branches back to the first.
struct SassLoop {
  size_t first = 0, last = 0;
};

struct SassKernel {
  std::string name;
  std::vector<SassInstruction> code;  // without the padding after it
  std::vector<SassLoop> loops;        // by `first`; of two that begin together the longer first
};

// By name. kCorrupt for what is no cubin.
Result<std::vector<SassKernel>> read_sass(ByteView cubin);

// Most bytes that a thread has asked device memory for and not yet waited for, at one place in the
// code, and in how many loads. Asynchronous copies count until their group is waited for, and what
// one step of a loop leaves under way counts in the next. Of branches that meet, the one with more.
struct SassInFlight {
  int64_t bytes = 0;
  int64_t loads = 0;
  SassInFlight& operator+=(const SassInFlight& more) {
    bytes += more.bytes;
    loads += more.loads;
    return *this;
  }
};
// `within`: at places of these instructions alone.
SassInFlight loads_in_flight(const SassKernel& kernel, std::optional<SassLoop> within = {});

// The innermost loop that holds an instruction, as a place in `loops`; -1: none.
int innermost_loop(const SassKernel& kernel, size_t instruction);

}  // namespace common
