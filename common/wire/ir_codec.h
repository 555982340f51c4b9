// Graphs, programs, plans, payloads and reports to bytes and back (schemas/ir.capnp, plan.capnp).
//
// Encoding a valid value never fails, and equal values give equal bytes. Decoding takes any bytes:
// kCorrupt when they are damaged, kInvalidInput when they break a limit or do not pass the IR's or
// the plan's verifier. What it returns has been verified.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "common/ir/llir/llir.h"
#include "common/plan/plan.h"
#include "common/plan/seal.h"
#include "common/wire/task.h"

namespace common {

Bytes encode_graph(const Graph& graph);
Result<Graph> decode_graph(ByteView bytes);

Bytes encode_program(const Program& program);
Result<Program> decode_program(ByteView bytes);

// The plan in a grant.
Bytes encode_plan(const Plan& plan);
Result<Plan> decode_plan(ByteView bytes);

// The content of a plan's or a revocation list's blob. Decoding takes only what encoding gives, to
// the byte, so that no bit is outside of what the signature covers. It does not check the
// signature: check_signature() or check_revocations() comes next, decode_grant(sealed.bytes) or
// decode_revocations() only after it.
Bytes encode_sealed(const Sealed& sealed);
Result<Sealed> decode_sealed(ByteView bytes);

// The bytes that a farm signs (sign_plan).
Bytes encode_grant(const PlanGrant& grant);
Result<PlanGrant> decode_grant(ByteView bytes);

// The bytes that a farm signs (sign_revocations).
Bytes encode_revocations(const RevocationList& list);
Result<RevocationList> decode_revocations(ByteView bytes);

// Task::payload. The payload's graph is checked against its program where both are at hand.
Bytes encode_task_payload(const TaskPayload& payload);
Result<TaskPayload> decode_task_payload(ByteView bytes);

// TaskResult::report. Kernels, objects and times agree in number; errors and times are finite; a
// run took some time.
Bytes encode_task_report(const TaskReport& report);
Result<TaskReport> decode_task_report(ByteView bytes);
// The same of a task that only compiled (Task::only_build).
Result<TaskReport> decode_build_report(ByteView bytes);

}  // namespace common
