#include "common/ir/llir/call_flow.h"

#include <algorithm>
#include <cstdint>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/verify.h"

namespace common {
bool symbols_in_scope(const Expr& e, size_t count) {
  bool ok = true;
  e.visit_vars([&](Var v) { ok = ok && v.kind == Var::Kind::kSymbol && at(v.id) < count; });
  return ok;
}

Status verify_buffers(const std::vector<Buffer>& buffers, const std::vector<GraphInput>& inputs,
                      const std::vector<GraphOutput>& outputs) {
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Buffer& buffer = buffers[b];
    size_t limit = buffer.kind == BufferKind::kInput    ? inputs.size()
                   : buffer.kind == BufferKind::kOutput ? outputs.size()
                                                        : SIZE_MAX;
    if (buffer.position < 0 || at(buffer.position) >= limit) {
      return invalid_input(cat("buffer ", b, ": no such input or output"));
    }
    if (buffer.kind != BufferKind::kInput) continue;
    const GraphInput& input = inputs[at(buffer.position)];
    if (input.dtype != buffer.dtype || input.shape != buffer.shape) {
      return invalid_input(cat("buffer ", b, " does not fit its input"));
    }
  }
  return {};
}

Status verify_checks(const std::vector<Buffer>& buffers, const std::vector<GraphInput>& inputs,
                     const std::vector<GraphOutput>& outputs, size_t symbols) {
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Buffer& buffer = buffers[b];
    if (buffer.kind != BufferKind::kOutput) continue;
    const GraphOutput& output = outputs[at(buffer.position)];
    if (output.kind != OutputKind::kCheck) continue;
    Status fits = verify_check(output, inputs, symbols, buffer.dtype, buffer.shape);
    if (!fits.ok()) return invalid_input(cat("buffer ", b, ": ", fits.error().message));
  }
  return {};
}

Status CallFlow::add(const Call& call) {
  for (const Expr& e : call.symbols) {
    if (!symbols_in_scope(e, symbols_)) return invalid_input("uses an unknown symbol");
  }
  auto exists = [this](int id) { return id >= 0 && at(id) < buffers_.size(); };
  for (int id : call.inputs) {
    if (!exists(id)) return invalid_input("no such buffer");
    if (buffers_[at(id)].kind != BufferKind::kInput && !written_[at(id)]) {
      return invalid_input(cat("reads buffer ", id, " before it is written"));
    }
  }
  for (int id : call.outputs) {
    if (!exists(id)) return invalid_input("no such buffer");
    if (buffers_[at(id)].kind == BufferKind::kInput || written_[at(id)]) {
      return invalid_input(cat("buffer ", id, " is not its to write"));
    }
    written_[at(id)] = 1;
  }
  return {};
}

Status CallFlow::finish(size_t outputs) const {
  std::vector<char> covered(outputs, 0);
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].kind == BufferKind::kOutput && written_[b]) {
      covered[at(buffers_[b].position)] = 1;
    }
  }
  if (std::count(covered.begin(), covered.end(), 0) == 0) return {};
  return invalid_input("an output is never written");
}

}  // namespace common
