// Pieces of CUDA C++ that several templates write.
#pragma once

#include <string>
#include <string_view>

#include "common/lowering/text/code_writer.h"

namespace worker {

// What functions that blocks call to share results keep of it for themselves, at most.
inline constexpr int64_t kFunctionsSharedBytes = 64;

// Several statements, a line each, in the innermost scope.
void write_lines(common::CodeWriter& writer, std::string_view text);
// Declares `memory`: bytes that the block shares, aligned to `alignment`. Returns how many of them
// the launch must ask for; with a larger alignment than 16, all.
int64_t declare_shared(common::CodeWriter& writer, int64_t bytes, int64_t alignment = 16);
// "#pragma unroll" and "for (int i = 0; i < count; ++i)".
std::string unrolled_loop(std::string_view i, int64_t count);

}  // namespace worker
