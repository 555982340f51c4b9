// Items of a sort in a graph: a key with its position, so that no two are equal.
#pragma once

#include "common/base/result.h"
#include "common/ir/nest/node_adder.h"
#include "common/ir/tiled/loop_axes.h"

namespace common {

// Tensors of one shape. NaNs have a class of their own, and so has padding, which comes last.
struct SortItems {
  NodeId key_class = 0;  // int64
  NodeId key = 0;        // float64 or int64
  NodeId position = 0;   // int64, in the line
};

class SortItemsAdder {
 public:
  // `sort` is a kSort of `graph`. Axes are those of its lines, which come first, then its own.
  SortItemsAdder(Graph& graph, NodeId sort);

  // Of all keys, without padding. `packed`: as 32 bits hold them, which kInvalidInput says of
  // float64 that they do not.
  Result<SortItems> items(bool packed);
  // The items at a position in the line over the axes, which begin with those of lines; padding
  // where the axes leave steps out.
  SortItems read(const SortItems& items, const LoopAxes& axes, const Expr& position);
  // The same of items that were read so.
  SortItems view(const SortItems& items, const View& view);
  SortItems select(NodeId condition, const SortItems& a, const SortItems& b);
  // Whether `a` comes before `b`.
  NodeId is_before(const SortItems& a, const SortItems& b);

  // Where the item goes in the node's memory whose rank is given over axes that begin with those of
  // lines; -1 where not `is_item` or the node has no position for it.
  NodeId places(NodeId rank, NodeId is_item);
  NodeId is_item(const SortItems& items);

  const Shape& lines() const { return lines_; }
  const Expr& length() const { return length_; }
  const Expr& count() const { return count_; }  // positions of the result
  const Node& node() const { return node_; }

 private:
  NodeAdder nodes_;
  Node node_;
  size_t axis_;
  Shape lines_;
  Expr length_, count_;
};

}  // namespace common
