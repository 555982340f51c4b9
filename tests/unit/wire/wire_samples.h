// Values of everything that crosses the wire but messages, with no field left out: for tests of the
// codecs and as what fuzzers damage.
#pragma once

#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "common/wire/task.h"

namespace common {

LoopAttr sample_loop();
// One node of every operation.
Graph sample_graph();
// out = (a + b) computed twice, through a temporary.
Program sample_program();
PlanKernel sample_code(int object);
PlanKernel sample_gemm();
Plan sample_plan();
TaskPayload sample_payload();
TaskReport sample_report();

}  // namespace common
