// The kAttention template: scores, softmax and the product with the values for a block of rows, a
// block of keys at a time, so that no matrix of rows times keys is ever stored.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/function_body.h"
#include "common/schedule/kernels/vector_unit.h"

namespace worker {

// `body` has attention_form. Softmax is online: each block rescales what earlier blocks left when
// it brings a greater score (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; Dao et al., "FlashAttention", 2022). Where the probabilities are rounded or otherwise
// changed before the product, or the tiling says so, the scores of whole rows are kept instead.
// Keys that positions alone hide from all rows of a block are left out, whatever their values hold.
// `tiling`: an AttentionTiling. kUnsupported for a body that is no attention.
common::Result<common::FunctionBody> emit_attention(const common::Graph& body,
                                                    const common::Tiling& tiling,
                                                    const common::VectorUnit& unit);

}  // namespace worker
