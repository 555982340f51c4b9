// Where another runtime's time went, operator by operator: what its profiler wrote.
#pragma once

#include <string>
#include <string_view>

#include "clients/score/score.h"
#include "common/base/result.h"

namespace clients {

inline constexpr size_t kProfileBytesMax = size_t{256} << 20;

// One of:
//   {"runtime": "onnxruntime", "runs": 10, "operators": [{"name": "MatMul", "ms": 12.5}, ...]}
// with milliseconds of all runs together ("runs" may be left out: 1), and with "launches" and
// "total_ms" of all runs where they are known; or Chrome's trace events ({"traceEvents": [...]}) as
// torch.profiler exports them, divided by the "ProfilerStep" events where there are any; or ONNX
// Runtime's ([...], category "Node"), divided by its "model_run" events. Operators of torch's trace
// (category "cpu_op") count without those they call; where the trace has kernels of a GPU, they
// count as the kernels that they launched (by "External id") take, and a kernel without an operator
// counts under its own name. kInvalidInput naming the file and what is wrong.
common::Result<OtherRuntime> parse_other_runtime(std::string_view text, const std::string& name);

}  // namespace clients
