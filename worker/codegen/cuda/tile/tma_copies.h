// How the copy engine brings a product's operands into shared memory, step by step of the sum.
#pragma once

#include <memory>
#include <vector>

#include "common/lowering/maps/operand_map.h"
#include "common/lowering/maps/window_map.h"
#include "common/plan/tensor_map.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"

namespace worker {

// Emits what one thread does. The stage's address is `to`, its barrier `full + slot`.
class TmaCopies {
 public:
  virtual ~TmaCopies() = default;
  // The left operand's and the right one's.
  virtual std::vector<common::TensorMap> maps() const = 0;
  // Whether an operand's memory runs along k.
  virtual bool along_k(common::Side side) const = 0;
  // Elements of k, with those that fill up steps.
  virtual common::Expr depth() const = 0;
  // Of those the first of each step, of which the others are zeros; at most `depth`.
  virtual int64_t used_depth(int64_t depth) const { return depth; }
  // Before the steps; the copies of `step`; and what follows each step.
  virtual void begin() {}
  virtual void copy(const CudaTileStages& stages) = 0;
  virtual void advance() {}
};

// The boxes of an operand by `map`, map<number>, at element `k0` of k, with the coordinates `more`
// behind those of k and of its own axis. A cluster's blocks each bring a part of the operand
// that they share.
void copy_boxes(CudaTileBlock& block, const CudaTileStages& stages, common::Side side,
                const common::OperandMap& map, int number, const std::string& k0,
                const std::string& more);

// Of a contraction that the block computes, whose maps are the launch's from map<number> on, where
// both operands have maps of boxes, and where the left one has one of windows; null where they have
// not. `block` and `contraction` outlive them.
std::unique_ptr<TmaCopies> box_copies(CudaTileBlock& block, const common::Contraction& contraction,
                                      int64_t depth, int number);
std::unique_ptr<TmaCopies> window_copies(CudaTileBlock& block,
                                         const common::Contraction& contraction, int64_t depth,
                                         int number);

}  // namespace worker
