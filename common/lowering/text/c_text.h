// The C spelling of types, literals, size expressions, operations and casts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/ir/expr/bounds.h"
#include "common/ir/hlir/graph.h"

namespace common {

// The type of an element in memory: "float", "uint16_t" for the half types, "uint64_t" for
// complex numbers (both halves), "uint8_t" for booleans.
std::string_view c_storage_type(DType dtype);
// The type of a value in registers: as in memory, but "_Bool" for booleans.
std::string_view c_value_type(DType dtype);

// A literal of the dtype's value type that stands for `value` exactly as a cast would give it.
std::string c_literal(DType dtype, double value);
std::string c_int_literal(int64_t value);
// The literal of the element whose storage `bytes` points to.
std::string c_element_literal(DType dtype, const std::byte* bytes);

// A size expression as C of type int64_t. `name` spells variables; `bounds` proves operands of
// divisions non-negative, which makes them C's own.
std::string c_expr(const Expr& expr, const std::function<std::string(Var)>& name,
                   const Bounds& bounds);

std::string c_unary(UnaryOp op, DType dtype, const std::string& x);
std::string c_binary(BinaryOp op, DType dtype, const std::string& a, const std::string& b);
std::string c_cast(DType from, DType to, const std::string& x);
// "for (int64_t i = from; i < to; i += step)"
std::string counting_loop(std::string_view i, std::string_view from, std::string_view to,
                          int64_t step = 1);
// The suffix of preamble functions for a dtype, such as "f32".
std::string c_suffix(DType dtype);

}  // namespace common
