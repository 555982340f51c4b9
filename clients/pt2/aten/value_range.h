// What a graph by itself says about the values of its integers, whatever the inputs are.
#pragma once

#include <optional>
#include <unordered_map>

#include "clients/pt2/aten/checked_builder.h"

namespace clients {

// Inclusive bounds, which may depend on sizes; empty when nothing is known.
struct ValueRange {
  std::optional<Expr> low, high;
};

// Remembers what it has derived, so that a graph's nodes are each looked at once.
class ValueRanges {
 public:
  explicit ValueRanges(const Builder& b) : b_(b) {}
  // Bounds of every element of an integer or boolean tensor.
  ValueRange of(NodeId id) { return of(id, 0); }

 private:
  ValueRange of(NodeId id, int depth);
  ValueRange derive(NodeId id, int depth);
  ValueRange of_view(const common::Node& node, int depth);
  ValueRange of_cast(const common::Node& node, int depth);
  ValueRange of_binary(const common::Node& node, int depth);
  ValueRange of_reduction(const common::Node& node, int depth);
  ValueRange of_scan(const common::Node& node, int depth);
  // Sums of up to `count` values of this range.
  ValueRange summed(const ValueRange& range, const Expr& count) const;
  ValueRange joined(const ValueRange& a, const ValueRange& b) const;
  Expr lesser(const Expr& a, const Expr& b) const;
  Expr greater(const Expr& a, const Expr& b) const;
  bool fits(DType dtype, const ValueRange& range) const;

  const Builder& b_;
  std::unordered_map<NodeId, ValueRange> known_;
};

}  // namespace clients
