// Solutions of triangular systems, which every factorisation ends in.
#pragma once

#include "clients/pt2/linalg/matrices.h"

namespace clients {

struct Triangle {
  bool upper = false;
  bool unit = false;  // its diagonal counts as ones
};
// X of A X = B by substitution, a row a step; A is (batch, n, n) and B (batch, n, columns). What
// lies on the other side of A's diagonal is not read.
NodeId solve_triangle(Context& c, NodeId a, NodeId b, Triangle form);
// The other way round where `left` is false: X of X A = B.
NodeId solve_triangle(Context& c, NodeId a, NodeId b, Triangle form, bool left);

}  // namespace clients
