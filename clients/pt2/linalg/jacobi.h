// Eigenvalues and singular values by Jacobi rotations: a number of sweeps that follows from the
// size, each of as many steps as it takes to rotate every pair of columns once.
//
// Half as many pairs as there are columns are rotated at once, in the order of a round-robin
// tournament (Brent and Luk, "The solution of singular-value and symmetric eigenvalue problems on
// multiprocessor arrays", 1985). Sweeps converge quadratically once they begin to; columns that are
// orthogonal to rounding are left alone.
#pragma once

#include "clients/pt2/linalg/matrices.h"

namespace clients {

struct Eigen {
  NodeId values = 0;   // (batch, n), rising
  NodeId vectors = 0;  // (batch, n, n), columns; each one or its opposite
};
// Of symmetric matrices, of which the lower half is read.
Eigen eigen_of(Context& c, NodeId a);

struct Singular {
  NodeId u = 0;       // (batch, m, r), or (batch, m, m) where it is full
  NodeId values = 0;  // (batch, r), falling
  NodeId v = 0;       // (batch, n, r), or (batch, n, n) where it is full
};
// Of m by n matrices, r = min(m, n); A = U diag(S) V'. A column of U and the same one of V may both
// be the opposite.
Singular singular_of(Context& c, NodeId a, bool full);
// The singular values alone.
NodeId singular_values(Context& c, NodeId a);

}  // namespace clients
