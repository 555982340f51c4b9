// QR factors by Householder reflections.
#pragma once

#include "clients/pt2/linalg/matrices.h"

namespace clients {

// As LAPACK's geqrf leaves them, for m by n matrices with r = min(m, n) reflections.
struct Reflections {
  NodeId packed = 0;  // R on and above the diagonal; below it the vectors, whose first element is 1
  NodeId scales = 0;  // (batch, r)
};
Reflections reflections_of(Context& c, NodeId a);
// The first `columns` columns of the product of the reflections: (batch, m, columns).
NodeId product_of(Context& c, const Reflections& q, int64_t columns);
// The product of the reflections, or its transposed one, times a stack.
NodeId reflected(Context& c, const Reflections& q, NodeId x, bool adjoint);

struct Qr {
  NodeId q = 0;  // (batch, m, r), or (batch, m, m) where it is complete
  NodeId r = 0;
};
Qr qr_of(Context& c, NodeId a, bool complete);

}  // namespace clients
