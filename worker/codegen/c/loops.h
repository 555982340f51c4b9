// The kLoops template: loop nests over the outputs' shapes, everything else on demand.
#pragma once

#include <map>

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "worker/codegen/body/body_emitter.h"
#include "worker/codegen/body/function_body.h"
#include "worker/codegen/generator.h"

namespace worker {

struct LoopsOptions {
  std::map<common::NodeId, StoredNode> stored;  // nodes that are in memory already
  bool whole = false;                           // one unit, which does everything
  int inner_axis = -1;     // the output axis whose loop goes inside of the others
  bool has_pairs = false;  // see VectorUnit
};

common::Result<FunctionBody> emit_loops(const common::Graph& body, const common::Schedule& schedule,
                                        const LoopsOptions& options = {});

}  // namespace worker
