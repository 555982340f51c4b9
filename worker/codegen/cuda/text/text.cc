#include "worker/codegen/cuda/text/text.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/cost/gpu_shared_memory.h"

namespace worker {

using common::cat;
using common::CodeWriter;

void write_lines(CodeWriter& writer, std::string_view text) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    if (end != 0) writer.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

int64_t declare_shared(CodeWriter& writer, int64_t bytes, int64_t alignment) {
  if (alignment > 16) {
    // Kernels of one program may ask for different alignments under different names only.
    std::string name = cat("lf_shared_", alignment);
    writer.line(cat("extern __shared__ __align__(", alignment, ") unsigned char ", name, "[];"));
    writer.line(cat("unsigned char* const memory = ", name, ";"));
    return bytes;
  }
  if (bytes <= common::kGpuStaticSharedBytes - kFunctionsSharedBytes) {
    writer.line(cat("__shared__ __align__(16) unsigned char memory[", bytes, "];"));
    return 0;
  }
  writer.line("extern __shared__ __align__(16) unsigned char lf_shared[];");
  writer.line("unsigned char* const memory = lf_shared;");
  return bytes;
}

std::string unrolled_loop(std::string_view i, int64_t count) {
  return cat("#pragma unroll\nfor (int ", i, " = 0; ", i, " < ", count, "; ++", i, ")");
}

}  // namespace worker
