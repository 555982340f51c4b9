// Calls over buffers, checked: what LLIR programs (llir.h) and the plans made from them
// (common/plan) must keep alike.
#pragma once

#include <vector>

#include "common/ir/llir/llir.h"

namespace common {

// Whether an expression uses only the symbols s0 .. s<count - 1>.
bool symbols_in_scope(const Expr& e, size_t count);

// kInvalidInput names the buffer that stands for no input or output, or has another type than its
// input.
Status verify_buffers(const std::vector<Buffer>& buffers, const std::vector<GraphInput>& inputs,
                      const std::vector<GraphOutput>& outputs);

// kInvalidInput names the buffer that cannot be the value of its kCheck output (verify_check).
// Assumes verify_buffers.
Status verify_checks(const std::vector<Buffer>& buffers, const std::vector<GraphInput>& inputs,
                     const std::vector<GraphOutput>& outputs, size_t symbols);

// Follows calls in the order of execution. Buffers that are read must be inputs or written before;
// every other one is written by one call. Errors are kInvalidInput.
class CallFlow {
 public:
  // Borrows the buffers. `symbols`: how many sizes vary.
  CallFlow(const std::vector<Buffer>& buffers, size_t symbols)
      : buffers_(buffers), symbols_(symbols), written_(buffers.size(), 0) {}
  Status add(const Call& call);
  // After the last call: every one of the outputs is written.
  Status finish(size_t outputs) const;

 private:
  const std::vector<Buffer>& buffers_;
  size_t symbols_;
  std::vector<char> written_;
};

}  // namespace common
