// The interface of code generators: an LLIR kernel becomes source text for one target.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/ir/llir.h"

namespace worker {

// One kernel as source. On the CPU `entry` is
//   void entry(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end,
//              void* scratch)
// with the body's inputs in order, then its outputs, as buffers; see PlanKernel for the rest.
struct KernelSource {
  std::string entry;
  std::string text;
  common::Expr units = 1;          // over the body's symbols
  common::Expr scratch_bytes = 0;  // over the body's symbols
};

class CodeGenerator {
 public:
  virtual ~CodeGenerator() = default;
  // "c" or "cuda": the language, part of every cache key.
  virtual std::string_view language() const = 0;
  // Comes once before the texts of any number of kernels that are compiled together.
  virtual std::string preamble() const = 0;
  // Deterministic: equal kernels give equal texts. kUnsupported when the template cannot hold the
  // body, or the code would grow out of bounds. kGemm kernels have no code and are refused.
  virtual common::Result<KernelSource> generate(const common::Kernel& kernel) const = 0;
};

// The symbol a kernel's code is found under: "lf_" and 16 hexadecimal digits of its fingerprint.
std::string entry_name(const common::Kernel& kernel);

}  // namespace worker
