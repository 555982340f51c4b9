// The kFourier template: transforms of as many rows at a time as a vector has elements, from what
// the kernel reads to what it makes of the frequencies, in memory that stays in a core's cache.
#pragma once

#include "common/base/result.h"
#include "common/ir/llir/llir.h"
#include "common/lowering/body/function_body.h"

namespace worker {

// `body` holds kFourier nodes of one transform (see fourier_form.h), whose operands are computed in
// place; each output is a function of single frequencies. Rows are read and written in memory's
// order and transposed in registers, so that between these a vector holds the same point of several
// rows; a real signal of an even length is a complex one of half of it. `tiling`: a
// FourierTiling. kUnsupported for another body.
common::Result<common::FunctionBody> emit_fourier(const common::Graph& body,
                                                  const common::Tiling& tiling);

}  // namespace worker
