// Emits the value of any node of a kernel's body at given indices, on demand.
//
// Nothing is emitted that is not asked for: views become index arithmetic, elementwise nodes become
// local values placed in the outermost scope that knows their operands, and reductions become loops
// where their indices are known. So every acyclic body gives correct code, whatever was fused.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/graph.h"
#include "worker/codegen/code_writer.h"

namespace worker {

using Indices = std::vector<common::Expr>;

// A node's elements in memory, row-major.
struct StoredNode {
  std::string pointer;  // of the dtype's storage type
  common::Shape shape;
};

// Private memory of one call: named pieces at aligned offsets.
class Scratch {
 public:
  // A pointer variable `name` to `count` elements, declared in the function's first lines.
  void add(const std::string& name, std::string_view type, int64_t element_bytes,
           const common::Expr& count);
  const common::Expr& bytes() const { return bytes_; }
  struct Piece {
    std::string name;
    std::string type;
    common::Expr offset;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  common::Expr bytes_ = 0;
  std::vector<Piece> pieces_;
};

class BodyEmitter {
 public:
  // `graph` holds only primitives (see lowering.h) and outlives the emitter. Its inputs are read
  // through pointers in0, in1, ...
  BodyEmitter(const common::Graph& graph, CodeWriter& writer);

  // The value of `node` at `indices`, one expression per axis.
  CodeValue value(common::NodeId node, const Indices& indices);
  // The node's elements are in memory from now on.
  void set_stored(common::NodeId node, StoredNode stored) { stored_[node] = std::move(stored); }
  // Code whose indices are not provably inside of `shape` must stay in the innermost conditional
  // scope; this is that scope, or the scope where the indices are known.
  int safe_level(const Indices& indices, const common::Shape& shape);

  // kUnsupported once an operation was met that has no expression form, or the code grew too long.
  const common::Status& status() const { return status_; }

  // The positions that inputs and stored nodes were read at so far.
  const std::vector<common::Expr>& load_offsets() const { return load_offsets_; }

  const common::Graph& graph() const { return graph_; }
  CodeWriter& writer() { return w_; }

 private:
  CodeValue compute(common::NodeId id, const Indices& indices);
  CodeValue load(const StoredNode& stored, common::DType dtype, const Indices& indices);
  CodeValue constant(const common::Node& node, const Indices& indices);
  CodeValue view(const common::Node& node, const Indices& indices);
  CodeValue elementwise(const common::Node& node, const Indices& indices);
  CodeValue power(const common::Node& node, const std::vector<CodeValue>& x, bool* done);
  CodeValue gather(const common::Node& node, const Indices& indices);
  CodeValue declare(int level, common::DType dtype, std::string_view expression);

  // ---- reductions (reduction_emitter.cc)
  CodeValue reduction(common::NodeId id, const Indices& indices);
  CodeValue arg_reduction(const common::Node& node, const Indices& indices, int level);
  void reduction_loops(const common::Node& node, const Indices& indices, size_t axis, Indices inner,
                       const std::string& total);
  void innermost_loop(const common::Node& node, const common::Expr& extent, Indices inner,
                      size_t axis, const std::string& total);

  const common::Graph& graph_;
  CodeWriter& w_;
  std::map<common::NodeId, StoredNode> stored_;
  std::vector<common::Expr> load_offsets_;
  common::Status status_;
  int depth_ = 0;
};

// The row-major position of `indices` in `shape`.
common::Expr linear_position(const Indices& indices, const common::Shape& shape);

}  // namespace worker
