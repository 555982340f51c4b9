// Blocks of half-precision operands in shared memory, several stages of them: how they are laid out
// and loaded, for kernels that multiply them on tensor cores.
#pragma once

#include <string>
#include <string_view>

#include "common/lowering/body/contraction.h"
#include "worker/codegen/cuda/tile/tile_block.h"

namespace worker {

// A stage is a block of the left operand and one of the right. A block is rows of 16-byte chunks
// that run as the operand's memory does: along k (a row for each row or column of the product) or
// along its own axis (a row for each k). Chunks are permuted within their row so that eight rows'
// chunks at one place meet every bank once. Operands that are inputs in order are copied; others
// are computed by the threads.
class CudaTileStages {
 public:
  static constexpr int64_t kChunk = 8;        // elements of 16 bytes
  static constexpr int64_t kGroupChunks = 8;  // of a row, where rows are kept in groups

  struct Options {
    int64_t depth = 64;  // steps of k in a stage
    int64_t stages = 3;
    // Rows of more than 128 bytes are kept in groups of 128 bytes, each with all rows, as warpgroup
    // products read them; and what threads compute goes through lf_store_shared16.
    bool in_groups = false;
    bool only_right = false;  // the left operand lies elsewhere
  };
  struct Operand {
    common::Side side{};
    std::string name;
    int64_t width = 0;     // rows or columns of the block
    bool along_k = false;  // chunks run along k
    bool copied = false;   // chunks are copied as they are
  };

  CudaTileStages(CudaTileBlock& block, Options options);

  // For operands that the copy engine brings in an order of its own.
  void set_along_k(common::Side side, bool along_k) {
    (side == common::Side::kLeft ? left_ : right_).along_k = along_k;
  }
  const Operand& left() const { return left_; }
  const Operand& right() const { return right_; }
  const Options& options() const { return options_; }
  int64_t bytes(const Operand& x) const { return x.width * options_.depth * 2; }
  // Of a stage, the left operand first; and where in it the right one begins.
  int64_t right_at() const { return options_.only_right ? 0 : bytes(left_); }
  int64_t stage_bytes() const { return right_at() + bytes(right_); }
  int64_t row_chunks(const Operand& x) const {
    return (x.along_k ? options_.depth : x.width) / kChunk;
  }
  // The byte of an operand's block at which a chunk lies, both C expressions.
  std::string place(const Operand& x, const std::string& row, const std::string& chunk) const;

  // What threads keep between load and keep.
  void declare();
  // Copies the operands' blocks that begin at `k0` to the stage `to`, or computes them.
  void load();
  // Stores what was computed there.
  bool keeps() const { return !left_.copied || !right_.copied; }
  void keep();

 private:
  Operand operand(common::Side which, const char* name, int64_t width) const;
  int64_t per_thread(const Operand& x) const;
  void open_slots(const Operand& x);
  void close_slots(const Operand& x);
  std::string target(const Operand& x) const;
  void copy(const Operand& x);
  void compute(const Operand& x);

  CudaTileBlock& block_;
  const common::Contraction& c_;
  common::CodeWriter& w_;
  Options options_;
  Operand left_, right_;
};

}  // namespace worker
