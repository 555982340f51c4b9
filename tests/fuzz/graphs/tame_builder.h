// Builds graphs whose results can be compared tightly: it knows of every value how large it is and
// how far rounding may take it, so that a comparison needs no guess and a difference means a bug.
#pragma once

#include <map>
#include <vector>

#include "common/ir/hlir/builder.h"

namespace fuzz {

// What is known of all elements of a value, over all bindings of the symbols.
struct Numbers {
  double bound = 0;  // greatest magnitude of the finite ones
  // The most that two correct evaluations, of which one may be in wider floats, differ. At 0 the
  // value may decide things: be compared, rounded, sorted, converted to an integer.
  double error = 0;
  int grain = 0;         // every element is a multiple of 2^-grain; kNoGrain: of nothing known
  bool special = false;  // may be infinite or NaN
};
inline constexpr int kNoGrain = 2000;

// Operations take operands of any numbers and bring them into their domain first. Where one needs
// operands without error (see Numbers), the caller sees to that. Values that grew beyond use are
// scaled by powers of two.
class TameBuilder {
 public:
  // `bindings` are the values of the symbols that the graph will be run with.
  TameBuilder(std::vector<common::SymbolRange> symbols, std::vector<std::vector<int64_t>> bindings);

  common::GraphBuilder& graph() { return graph_; }
  const Numbers& numbers(common::NodeId id) const { return numbers_.at(id); }
  bool is_certain(common::NodeId id) const { return numbers(id).error == 0; }
  // Declares what is known of a node that was made with graph(). Gives the node.
  common::NodeId declare(common::NodeId id, const Numbers& numbers);
  // The greatest value over the bindings.
  int64_t most(const common::Expr& size) const;
  int64_t most_elements(const common::Shape& shape) const;

  common::NodeId scalar(common::DType dtype, double value);
  common::NodeId cast(common::NodeId x, common::DType dtype);
  // An arithmetic dtype: half types become f32; f32 and f64 of sane numbers.
  common::NodeId computable(common::NodeId x);
  // A view of x: movement keeps the numbers, a fill joins them.
  common::NodeId view(common::NodeId x, const common::View& view);
  // x, or its elements with NaN and infinities replaced.
  common::NodeId sane(common::NodeId x);
  // x, or x scaled down (integers: modulo a constant) to magnitudes of at most `bound`.
  common::NodeId within(common::NodeId x, double bound);

  // Of f32 or f64 operands, and the operations that integers and booleans have.
  common::NodeId unary(common::UnaryOp op, common::NodeId x);
  common::NodeId binary(common::BinaryOp op, common::NodeId a, common::NodeId b);
  common::NodeId select(common::NodeId condition, common::NodeId a, common::NodeId b);
  common::NodeId reduce(common::ReduceOp op, common::NodeId x, const std::vector<int>& axes,
                        bool keep);
  common::NodeId scan(common::ScanOp op, common::NodeId x, int axis);
  common::NodeId matmul(common::NodeId a, common::NodeId b);
  common::NodeId contract(common::NodeId a, common::NodeId b, const common::ContractAttr& labels);
  common::NodeId softmax(common::NodeId x, int axis, bool log);
  common::NodeId norm(common::NodeId x, int axes, bool centred);
  common::NodeId fourier(common::NodeId x, const common::FourierAttr& part);
  common::NodeId scatter(common::ScatterMode mode, common::NodeId base, common::NodeId updates,
                         const std::vector<common::NodeId>& indices,
                         std::vector<common::Coordinate> coordinates);

 private:
  common::DType dtype(common::NodeId id) const { return graph_.dtype(id); }
  common::NodeId away_from_zero(common::NodeId x, double distance);
  common::NodeId float_binary(common::BinaryOp op, common::NodeId a, common::NodeId b);
  common::NodeId integer_binary(common::BinaryOp op, common::NodeId a, common::NodeId b);
  Numbers sum_of(common::DType dtype, const Numbers& term, double count) const;

  common::GraphBuilder graph_;
  std::vector<std::vector<int64_t>> bindings_;
  std::map<common::NodeId, Numbers> numbers_;
};

// The greatest magnitude of an integer type or bool.
double integer_limit(common::DType dtype);
// The result of rounding such values to `dtype`, `times` times.
Numbers rounded(common::DType dtype, Numbers numbers, double times = 1);

}  // namespace fuzz
