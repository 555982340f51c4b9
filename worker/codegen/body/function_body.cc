#include "worker/codegen/body/function_body.h"

#include "common/base/cat.h"
#include "worker/codegen/text/view_inverse.h"

namespace worker {

FunctionBody finish_body(CodeWriter& writer, const common::Expr& units, const Scratch& scratch) {
  return {writer.finish(), units, scratch.pieces(), scratch.bytes()};
}

bool store_flows(common::NodeId source, const Indices& at, const common::Graph& body,
                 BodyEmitter& emitter, CodeWriter& writer) {
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    common::NodeId id = body.outputs[k].node;
    auto target = flow_forward(body, source, id, at);
    if (!target) return false;
    CodeValue x = emitter.value(id, *target);
    common::Expr offset = writer.simplify(linear_position(*target, body.node(id).shape));
    writer.line(common::cat("out", k, "[", writer.text(offset), "] = ", x.text, ";"));
  }
  return true;
}

}  // namespace worker
