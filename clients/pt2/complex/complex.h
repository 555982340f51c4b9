// Complex values as pairs of real ones, for the families that compute with them.
#pragma once

#include <string_view>

#include "clients/pt2/aten/translate_math.h"

namespace clients {

// Equal shapes and dtypes, float32 or float64.
struct Complex {
  NodeId real = 0;
  NodeId imaginary = 0;
};

NodeId zero_like(Context& c, NodeId x);
NodeId negated(Context& c, NodeId x);
// From and to a tensor with a last axis of two.
Complex split(Context& c, NodeId pairs);
NodeId join(Context& c, const Complex& z);
// A complex or real argument, or a number, in parts of dtype `d`.
Complex parts(Context& c, std::string_view name, DType d);
Complex from_polar(Context& c, NodeId size, NodeId angle);
NodeId size_of(Context& c, const Complex& z);
NodeId angle_of(Context& c, const Complex& z);
Complex times(Context& c, const Complex& a, const Complex& b);
Complex broadcasted(Context& c, Complex z, const Shape& shape);
// The node's complex result k, broadcast to its shape.
void set_parts(Context& c, Complex z, size_t k = 0);

}  // namespace clients
