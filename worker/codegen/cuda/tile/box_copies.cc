#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tma_copies.h"

namespace worker {

using common::cat;
using common::Side;

namespace {

constexpr int64_t kGroupBytes = 128;  // of a row that is permuted as one

class BoxCopies : public TmaCopies {
 public:
  BoxCopies(CudaTileBlock& block, common::Expr depth, common::OperandMap left,
            common::OperandMap right, int number)
      : block_(block),
        depth_(std::move(depth)),
        left_(std::move(left)),
        right_(std::move(right)),
        number_(number) {}

  std::vector<common::TensorMap> maps() const override { return {left_.map, right_.map}; }
  bool along_k(Side side) const override {
    return side == Side::kLeft ? left_.along_k : right_.along_k;
  }
  common::Expr depth() const override { return depth_; }
  void copy(const CudaTileStages& stages) override {
    block_.lines(cat("const int k0 = (int)(", block_.step_begin("step"), ");"));
    copy_boxes(block_, stages, Side::kLeft, left_, number_, k(left_), others(left_));
    copy_boxes(block_, stages, Side::kRight, right_, number_ + 1, k(right_), others(right_));
  }

 private:
  static std::string k(const common::OperandMap& map) {
    return map.k_run == 0 ? "k0" : cat("k0 % ", map.k_run);
  }
  // Coordinates in dimensions behind the first two.
  std::string others(const common::OperandMap& map) const {
    std::string at = map.k_run == 0 ? "" : cat(", k0 / ", map.k_run);
    for (size_t label : map.labels) {
      at += cat(", (int)(", block_.writer().text(block_.batch()[label]), ")");
    }
    return at;
  }

  CudaTileBlock& block_;
  common::Expr depth_;
  common::OperandMap left_, right_;
  int number_;
};

}  // namespace

// One box, or where the operand's memory runs along its own axis one for each group of chunks.
void copy_boxes(CudaTileBlock& block, const CudaTileStages& stages, Side side,
                const common::OperandMap& map, int number, const std::string& k0,
                const std::string& more) {
  const int cluster = block.size().cluster;
  const bool is_left = side == Side::kLeft,
             is_shared = cluster > 1 && is_left == block.size().is_beside;
  const CudaTileStages::Operand& x = is_left ? stages.left() : stages.right();
  const int64_t depth = stages.options().depth;
  const int64_t box = map.along_k ? x.width : kGroupBytes / 2;
  const int64_t part = map.map.dimensions[1].box;
  const int64_t place = is_left ? 0 : stages.right_at();
  std::string blocks, rank, rank_bytes;
  if (is_shared) {
    blocks = cat((1 << cluster) - 1, ", ");
    rank = cat(" + rank * ", part);
    rank_bytes = cat(" + rank * ", part * kGroupBytes);
  }
  for (int64_t first = 0; first < x.width; first += box) {
    std::string own = cat("(int)(", is_left ? "m0" : "n0", " * ", x.width, ") + ", first,
                          map.along_k ? rank : "");
    std::string at = map.along_k ? cat(k0, ", ", own) : cat(own, ", ", k0, rank);
    block.writer().line(cat(is_shared ? "lf_copy_box_to(" : "lf_copy_box(", blocks, "to + ",
                            place + first * depth * 2, rank_bytes, ", &map", number,
                            ", full + slot, ", at, more, ");"));
  }
}

std::unique_ptr<TmaCopies> box_copies(CudaTileBlock& block, const common::Contraction& contraction,
                                      int64_t depth, int number) {
  const CudaBlockSize& size = block.size();
  auto left =
      operand_map(contraction, Side::kLeft, size.rows, depth, size.is_beside ? size.cluster : 1);
  auto right = operand_map(contraction, Side::kRight, size.columns, depth,
                           size.is_beside ? 1 : size.cluster);
  if (!left || !right) return nullptr;
  return std::make_unique<BoxCopies>(block, contraction.problem().k_size, *std::move(left),
                                     *std::move(right), number);
}

}  // namespace worker
