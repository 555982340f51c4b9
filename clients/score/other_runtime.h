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
// with milliseconds of all runs together ("runs" may be left out: 1); or Chrome's trace events
// ({"traceEvents": [...]}) as torch.profiler exports them, whose operators (category "cpu_op")
// count without those they call, divided by the "ProfilerStep" events where there are any; or ONNX
// Runtime's ([...], category "Node"), divided by its "model_run" events. kInvalidInput naming the
// file and what is wrong.
common::Result<OtherRuntime> parse_other_runtime(std::string_view text, const std::string& name);

}  // namespace clients
