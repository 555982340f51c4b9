// The operations of the reference interpreter: each takes values and gives a new value, stored
// once along axes where all operands repeat.
#pragma once

#include <array>

#include "common/ir/hlir/graph.h"
#include "common/runtime/interpreter/interpreter_value.h"

namespace common::interp {

// Reads through strides without a copy where the view allows it.
Result<Value> apply_view(const Context& context, const Value& in, const View& view);

Result<Value> eval_cast(const Context& context, const Value& in, DType to);
Result<Value> eval_unary(const Context& context, UnaryOp op, const Value& in);
Result<Value> eval_binary(const Context& context, BinaryOp op, const Value& a, const Value& b);
// Operands are seed, offset, subsequence and word; see kPhilox.
Result<Value> eval_philox(const Context& context, DType to, const std::array<const Value*, 4>& in);
Result<Value> eval_select(const Context& context, const Value& condition, const Value& a,
                          const Value& b);

Result<Value> eval_reduce(const Context& context, const ReduceAttr& attr, const Value& in);
Result<Value> eval_scan(const Context& context, const ScanAttr& attr, const Value& in);
Result<Value> eval_sort(const Context& context, const SortAttr& attr, const Value& in);
Result<Value> eval_softmax(const Context& context, const SoftmaxAttr& attr, const Value& in);
Result<Value> eval_norm(const Context& context, const NormAttr& attr, const Value& in);

// `operands` as in the node: a real signal, or its real and imaginary parts.
Result<Value> eval_fourier(const Context& context, const FourierAttr& attr,
                           std::span<const Value> operands);

// `operands` as in the node: data (base, updates), then the index tensors.
Result<Value> eval_gather(const Context& context, const GatherAttr& attr, const Sizes& sizes,
                          std::span<const Value> operands);
Result<Value> eval_scatter(const Context& context, const ScatterAttr& attr,
                           std::span<const Value> operands);

// reduce.sum over `axes` of a * b for float operands of equal sizes; the product is never stored.
Result<Value> eval_product_sum(const Context& context, const Value& a, const Value& b,
                               std::span<const int> axes, DType to);
Result<Value> eval_contract(const Context& context, const ContractAttr& attr, const Value& a,
                            const Value& b, DType to);

}  // namespace common::interp
