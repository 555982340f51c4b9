#include "worker/codegen/cuda/attention/attention.h"

#include "common/ir/llir/wrong_tiling.h"
#include "common/lowering/attention/half_attention.h"
#include "worker/codegen/cuda/attention/attention_decode.h"
#include "worker/codegen/cuda/attention/attention_flash.h"
#include "worker/codegen/cuda/attention/attention_simt.h"
#include "worker/codegen/cuda/attention/attention_skinny.h"
#include "worker/codegen/cuda/attention/attention_warpgroups.h"

namespace worker {

using common::DecodeAttentionTiling;
using common::FlashAttentionTiling;
using common::from_tiling;
using common::GpuFunction;
using common::Graph;
using common::HalfAttention;
using common::Result;
using common::SkinnyAttentionTiling;
using common::ThreadsAttentionTiling;
using common::Tiling;
using common::WarpgroupAttentionTiling;

namespace {

// The attention that tensor cores multiply by such a tiling.
template <class T>
Result<HalfAttention> tiled(const T& tiling, const HalfAttention& half) {
  auto attention = common::tiled_attention(half, tiling.one_label, tiling.rounds_first);
  if (!attention) return wrong_tiling(tiling, "its rows or probabilities are not of this kind");
  return *std::move(attention);
}

Result<GpuFunction> emit_halves(const HalfAttention& half, const Tiling& tiling,
                                bool has_warpgroups) {
  if (tiling.form == DecodeAttentionTiling::kForm) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<DecodeAttentionTiling>(tiling));
    return emit_cuda_attention_decode(half, sizes);
  }
  if (tiling.form == FlashAttentionTiling::kForm) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<FlashAttentionTiling>(tiling));
    LFARM_ASSIGN_OR_RETURN(HalfAttention attention, tiled(sizes, half));
    return emit_cuda_attention_flash(attention, sizes);
  }
  LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<WarpgroupAttentionTiling>(tiling));
  if (!has_warpgroups) return wrong_tiling(sizes, "the target's warpgroups do not multiply");
  LFARM_ASSIGN_OR_RETURN(HalfAttention attention, tiled(sizes, half));
  return emit_cuda_attention_warpgroups(attention, sizes);
}

}  // namespace

Result<GpuFunction> emit_cuda_attention(const Graph& body, const Tiling& tiling,
                                        bool has_warpgroups) {
  auto form = common::attention_form(body);
  if (!form) return common::unsupported("an attention kernel holds one attention and nothing else");
  if (tiling.form == ThreadsAttentionTiling::kForm) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<ThreadsAttentionTiling>(tiling));
    return emit_cuda_attention_simt(body, *std::move(form), sizes);
  }
  auto half = common::half_attention(body, *form);
  if (tiling.form == SkinnyAttentionTiling::kForm) {
    LFARM_ASSIGN_OR_RETURN(auto sizes, from_tiling<SkinnyAttentionTiling>(tiling));
    return half ? emit_cuda_attention_skinny(half->body, half->form, sizes)
                : emit_cuda_attention_skinny(body, *std::move(form), sizes);
  }
  if (half) return emit_halves(*half, tiling, has_warpgroups);
  return common::invalid_input(
      common::cat("the tiling '", print(tiling), "' is for half-precision operands"));
}

}  // namespace worker
