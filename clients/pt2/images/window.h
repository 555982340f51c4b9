// Views of sliding windows, for the families that multiply, average or search them.
#pragma once

#include <string_view>
#include <vector>

#include "clients/pt2/aten/translate_math.h"

namespace clients {

// One number for each spatial axis; a single number serves all.
std::vector<int64_t> per_axis(Context& c, std::string_view name, int spatial,
                              std::vector<int64_t> fallback);

struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

// Position along spatial axis k of the element that output place `o` reads at kernel place `t`.
Expr tap(const Window& w, size_t k, const Expr& o, const Expr& t);
// (batch, channel, *sizes) to (batch, channel, *out, *kernel), `fill` outside of the operand.
NodeId windows(Context& c, NodeId x, const Window& w, const Shape& out, double fill);

}  // namespace clients
