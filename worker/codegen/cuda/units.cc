#include "worker/codegen/cuda/units.h"

#include "common/base/cat.h"
#include "common/base/check.h"

namespace worker {

using common::FunctionBody;
using common::GpuFunction;

namespace {

constexpr int kThreads = 128;

}  // namespace

common::Result<GpuFunction> one_thread_a_unit(common::Result<FunctionBody> function,
                                              std::string_view block) {
  if (!function.ok()) return function.error();
  LFARM_CHECK(function->scratch.empty(), "threads have no scratch memory of their own");
  GpuFunction result{std::move(*function), {kThreads, kThreads, 0}};
  result.body.text = common::cat("  const int64_t begin = (int64_t)", block, " * ", kThreads,
                                 " + threadIdx.x, end = begin + 1;\n",
                                 "  if (begin >= units) return;\n", result.body.text);
  return result;
}

}  // namespace worker
