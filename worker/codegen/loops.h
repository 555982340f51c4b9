// The kLoops template: loop nests over the outputs' shapes, everything else on demand.
#pragma once

#include <map>

#include "common/base/result.h"
#include "common/ir/llir.h"
#include "worker/codegen/body_emitter.h"
#include "worker/codegen/generator.h"

namespace worker {

// The function's text after its prologue, and what its caller must know.
struct FunctionBody {
  std::string text;
  common::Expr units = 1;
  std::vector<Scratch::Piece> scratch;
  common::Expr scratch_bytes = 0;
};
// What was written, as the body of a function of so many units.
FunctionBody finish_function(CodeWriter& writer, const Scratch& scratch, const common::Expr& units);

struct LoopsOptions {
  std::map<common::NodeId, StoredNode> stored;  // nodes that are in memory already
  bool whole = false;                           // one unit, which does everything
  int inner_axis = -1;  // the output axis whose loop goes inside of the others
};

common::Result<FunctionBody> emit_loops(const common::Graph& body, const common::Schedule& schedule,
                                        const LoopsOptions& options = {});

}  // namespace worker
