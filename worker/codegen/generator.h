// The interface of code generators: an LLIR kernel becomes source text for one target.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"

namespace worker {

// One kernel as source. On the CPU `entry` is
//   void entry(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
//              void* scratch)
// with the body's inputs in order, then its outputs, as buffers; see EntryPoint for the rest.
//
// On a GPU the entry is
//   extern "C" __global__ void entry(const T0* in0, ..., U0* out0, ..., int64_t s0, ...,
//                                    int64_t units, char* scratch, int64_t scratch_stride,
//                                    const __grid_constant__ lf_tensor_map map0, ...)
// with the same buffers, then the body's symbols, each by value, and the tensor maps that
// entry.maps describe. It is launched in blocks of
// entry.block.threads threads (in x); block b computes the units that begin at b * block.units, and
// has scratch memory of its own at scratch + b * scratch_stride. Where it has any, a launch of n
// blocks finds the words ((uint32_t*)scratch)[-n] to ((uint32_t*)scratch)[-1] to be 0, and leaves
// them so.
struct KernelSource {
  common::EntryPoint entry;
  std::string text;
  // What a block of a GPU asks the second cache for before it waits for earlier kernels.
  int64_t prefetch_bytes = 0;
};

class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;
  // "c" or "cuda": the language, part of every cache key.
  virtual std::string_view language() const = 0;
  // Comes once before the texts of any number of kernels that are compiled together.
  virtual std::string preamble() const = 0;
  // As much of it as these texts need, for a compiler that is quicker then: the objects are the
  // same.
  virtual std::string preamble_for(std::string_view texts) const {
    (void)texts;
    return preamble();
  }
  // Deterministic: equal kernels give equal texts. kUnsupported when the template cannot hold the
  // body, or the code would grow out of bounds. kGemm kernels have no code and are refused.
  virtual common::Result<KernelSource> generate(const common::Kernel& kernel) const = 0;
};

// The symbol a kernel's code is found under: "lf_" and 16 hexadecimal digits of code_fingerprint().
std::string entry_name(const common::Kernel& kernel);

}  // namespace worker
