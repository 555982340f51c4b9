#include "common/lowering/body/function_body.h"

#include "common/base/cat.h"
#include "common/ir/llir/view_inverse.h"

namespace common {

FunctionBody finish_body(CodeWriter& writer, const Expr& units, const Scratch& scratch) {
  return {writer.finish(), units, scratch.pieces(), scratch.bytes()};
}

bool store_flows(NodeId source, const Indices& at, const Graph& body, BodyEmitter& emitter,
                 CodeWriter& writer, bool into_border) {
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    NodeId id = body.outputs[k].node;
    auto target = flow_forward(body, source, id, at, into_border);
    if (!target) return false;
    CodeValue x = emitter.value(id, *target);
    Expr offset = writer.simplify(linear_position(*target, body.node(id).shape));
    std::string name = cat("out", k);
    std::string place =
        emitter.has_team() ? emitter.team().store(name, body.node(id).dtype, offset) : "";
    if (place.empty()) place = cat(name, "[", writer.text(offset), "]");
    writer.line(cat(place, " = ", x.text, ";"));
  }
  return true;
}

}  // namespace common
