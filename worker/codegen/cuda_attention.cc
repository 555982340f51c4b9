#include "worker/codegen/cuda_attention.h"

#include "common/ir/attention_form.h"
#include "worker/codegen/cuda_attention_mma.h"
#include "worker/codegen/cuda_attention_simt.h"

namespace worker {

using common::Graph;
using common::Result;
using common::Schedule;

Result<CudaFunction> emit_cuda_attention(const Graph& body, const Schedule& schedule) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  if (auto half = half_attention(body, *form)) {
    auto function = emit_cuda_attention_mma(*half, schedule);
    if (function.ok()) return function;
  }
  return emit_cuda_attention_simt(body, *std::move(form), schedule);
}

}  // namespace worker
