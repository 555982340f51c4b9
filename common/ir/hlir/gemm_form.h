// Whether a contraction is a matrix product that a BLAS-like library can run as it stands.
#pragma once

#include <optional>

#include "common/ir/hlir/graph.h"

namespace common {

// out[b, i, j] = sum over l of a[b, i, l] * b[b, l, j], with element strides per operand. In each
// operand one of the two matrix strides is the constant 1. Expressions are over size symbols.
struct GemmOperand {
  Expr offset, batch_stride, row_stride, column_stride;
  friend bool operator==(const GemmOperand&, const GemmOperand&) = default;
};
struct GemmForm {
  DType dtype = DType::kFloat32;  // of all three
  Expr batch = 1, m = 0, n = 0, k = 0;
  GemmOperand a, b, out;
  int a_input = 0, b_input = 1;  // which kernel input each operand reads
  friend bool operator==(const GemmForm&, const GemmForm&) = default;
};

// For a kernel body that is one kContract (f32 or f64) over inputs or views of inputs without
// validity; empty when a stride is not affine or no matrix stride is 1.
std::optional<GemmForm> gemm_form(const Graph& body);

}  // namespace common
