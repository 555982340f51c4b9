#include "worker/codegen/cuda/units.h"

#include "common/base/cat.h"

namespace worker {

common::Result<CudaFunction> one_thread_a_unit(common::Result<FunctionBody> function) {
  if (!function.ok()) return function.error();
  // Every thread's scratch memory is apart; where there is some, few threads share a block.
  int threads = function->scratch.empty() ? 128 : 32;
  CudaFunction result{std::move(*function), {threads, threads, 0}, true};
  result.body.text = common::cat("  const int64_t begin = (int64_t)blockIdx.x * ", threads,
                                 " + threadIdx.x, end = begin + 1;\n",
                                 "  if (begin >= units) return;\n", result.body.text);
  result.body.scratch_bytes = result.body.scratch_bytes * common::Expr(threads);
  return result;
}

}  // namespace worker
