// Grows a graph node by node, each over nodes made before; the choices of random_graph.h.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include "common/base/random.h"
#include "tests/fuzz/graphs/tame_builder.h"

namespace fuzz {

class GraphGrower {
 public:
  // `pool` are the nodes to start from: at least one, of which one is without error.
  // No value gets more than `elements_max` elements.
  GraphGrower(TameBuilder& tame, common::Random& random, std::vector<common::NodeId> pool,
              int64_t elements_max)
      : tame_(tame),
        b_(tame.graph()),
        random_(random),
        pool_(std::move(pool)),
        elements_max_(elements_max) {}

  // Adds one operation and what it needs; nothing when the choice does not fit.
  void grow();
  const std::vector<common::NodeId>& pool() const { return pool_; }
  // x as a value of this type, when there is one.
  std::optional<common::NodeId> shaped(common::NodeId x, common::DType dtype, common::Shape shape);

 private:
  using NodeId = common::NodeId;
  using Shape = common::Shape;

  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + random_.below(values.size()));
  }
  int below(int bound) { return static_cast<int>(random_.below(static_cast<uint64_t>(bound))); }
  bool chance(double p) { return random_.chance(p); }

  NodeId some();
  NodeId some(const std::function<bool(NodeId)>& fits);
  NodeId some_certain();
  NodeId some_index();
  // Arithmetic of any dtype, or of f32 and f64.
  NodeId some_computable();
  NodeId some_float();
  // For operations in which NaN and infinities have their places.
  NodeId some_ordered();
  NodeId as_float(NodeId x);
  // A partner for x: of its dtype, its shape broadcasts with x's.
  NodeId partner(NodeId x, bool certain);
  common::Expr some_size();
  Shape some_shape(int rank_max);
  bool fits(const Shape& shape) const;
  void keep(NodeId id);

  void grow_unary();
  void grow_binary();
  void grow_comparison();
  void grow_select();
  void grow_cast();
  void grow_reduce();
  void grow_scan();
  void grow_position();
  void grow_draw();
  void grow_gather();
  void grow_scatter();
  void grow_product();
  void grow_contract();
  void grow_structure();
  void grow_layers();
  void grow_source();

  void grow_view();
  void grow_permute(NodeId x);
  void grow_reshape(NodeId x);
  void grow_expand(NodeId x);
  void grow_slice(NodeId x);
  void grow_pad(NodeId x);
  void grow_concat(NodeId x);
  void grow_unfold(NodeId x);
  void grow_diagonal(NodeId x);
  void grow_rotation(NodeId x);
  void grow_any_view(NodeId x);
  common::Expr some_position(const Shape& over);
  common::Coordinate inside(const Shape& over, const common::Expr& size, int slots);

  TameBuilder& tame_;
  common::GraphBuilder& b_;
  common::Random& random_;
  std::vector<NodeId> pool_;
  int64_t elements_max_;
};

}  // namespace fuzz
