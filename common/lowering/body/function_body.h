// What every template's emitter ends with: outputs stored, and the text of one C function.
#pragma once

#include <string>
#include <vector>

#include "common/lowering/body/body_emitter.h"

namespace common {

// The function's text after its prologue, and what its caller must know.
struct FunctionBody {
  std::string text;
  Expr units = 1;
  std::vector<Scratch::Piece> scratch;
  Expr scratch_bytes = 0;
};

// All scopes of the writer but the function's own must be closed.
FunctionBody finish_body(CodeWriter& writer, const Expr& units, const Scratch& scratch);

// Stores what every output of the body makes of element `at` of node `source`; false when one is no
// function of a single element of it. `into_border`: see flow_forward().
bool store_flows(NodeId source, const Indices& at, const Graph& body, BodyEmitter& emitter,
                 CodeWriter& writer, bool into_border = false);

}  // namespace common
