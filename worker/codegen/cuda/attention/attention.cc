#include "worker/codegen/cuda/attention/attention.h"

#include "common/ir/hlir/attention_form.h"
#include "worker/codegen/cuda/attention/attention_decode.h"
#include "worker/codegen/cuda/attention/attention_flash.h"
#include "worker/codegen/cuda/attention/attention_simt.h"
#include "worker/codegen/cuda/attention/attention_skinny.h"

namespace worker {

using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Schedule;

Result<GpuFunction> emit_cuda_attention(const Graph& body, const Schedule& schedule,
                                        const CudaMachine& machine) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  auto half = half_attention(body, *form);
  if (half && cuda_attention_is_decode(half->body, half->form, schedule)) {
    return emit_cuda_attention_decode(half->body, half->form, schedule, machine);
  }
  if (half && cuda_attention_is_skinny(half->body, half->form)) {
    return emit_cuda_attention_skinny(half->body, half->form, schedule, machine);
  }
  if (half) {
    auto function = emit_cuda_attention_flash(*half, schedule, machine);
    if (function.ok()) return function;
  }
  if (cuda_attention_is_skinny(body, *form)) {
    return emit_cuda_attention_skinny(body, *std::move(form), schedule, machine);
  }
  return emit_cuda_attention_simt(body, *std::move(form), schedule, machine);
}

}  // namespace worker
