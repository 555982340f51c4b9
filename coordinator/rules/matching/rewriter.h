// What a rule's code sees: types of classes, constants, and node constructors over classes.
#pragma once

#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "coordinator/egraph/egraph.h"
#include "coordinator/rules/matching/heads.h"
#include "coordinator/rules/matching/load_time.h"

namespace coordinator {

// Borrows all; cheap to make per match.
class Rewriter {
 public:
  // `load_time` is the e-graph's analysis; null: nothing is known to depend on weights alone.
  Rewriter(EGraph& graph, HeadTable& heads, const std::vector<common::SymbolRange>& symbols,
           const LoadTimeAnalysis* load_time = nullptr)
      : graph_(graph), heads_(heads), symbols_(symbols), load_time_(load_time) {}

  // The type of a class: all of its nodes have the same.
  const common::Node& type(ClassId cls) const;
  const common::Shape& shape(ClassId cls) const { return type(cls).shape; }
  common::DType dtype(ClassId cls) const { return type(cls).dtype; }
  // The value of every element, when the class holds a constant or a view of one.
  std::optional<double> uniform_value(ClassId cls) const;
  // The value depends on weights and constants alone: it is computed once, when weights are bound.
  bool at_load(ClassId cls) const {
    return load_time_ != nullptr && (*load_time_)[graph_.find(cls)] != 0;
  }
  // A node of the class with this operation and its operand classes. Copies are not found: they are
  // views once more.
  struct Found {
    const common::Node* node;
    std::vector<ClassId> operands;
  };
  std::optional<Found> find(ClassId cls, common::Op op) const;
  std::optional<Found> find_unary(ClassId cls, common::UnaryOp op) const;
  std::optional<Found> find_binary(ClassId cls, common::BinaryOp op) const;
  // All nodes of the class with this operation.
  std::vector<Found> find_all(ClassId cls, common::Op op) const;

  // Adds a node; its type must be complete.
  ClassId add(const common::Node& node, const std::vector<ClassId>& operands,
              Lowering lowering = Lowering::kInPlace);
  ClassId unary(common::UnaryOp op, ClassId x);
  ClassId binary(common::BinaryOp op, ClassId a, ClassId b);
  ClassId select(ClassId condition, ClassId a, ClassId b);
  ClassId cast(ClassId x, common::DType dtype);
  ClassId view(ClassId x, const common::View& view);
  ClassId scalar(common::DType dtype, double value, const common::Shape& shape);

  EGraph& graph() { return graph_; }
  const EGraph& graph() const { return graph_; }
  const common::Node& node(NodeId node) const { return heads_.node(graph_.head(node)); }
  Lowering lowering(NodeId node) const { return heads_.lowering(graph_.head(node)); }
  const std::vector<common::SymbolRange>& symbols() const { return symbols_; }

 private:
  template <class F>
  std::optional<Found> find_if(ClassId cls, F&& accepts) const;

  EGraph& graph_;
  HeadTable& heads_;
  const std::vector<common::SymbolRange>& symbols_;
  const LoadTimeAnalysis* load_time_;
};

}  // namespace coordinator
