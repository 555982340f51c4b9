// What kernels by warpgroup products have in common, however operands come into shared memory: the
// matrices' descriptors, the products of one step of k, and the sums' way to the epilogue.
#pragma once

#include <string>
#include <string_view>

#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"

namespace worker {

// A warpgroup takes 64 rows and all columns of the block.
class WgmmaProducts {
 public:
  static constexpr int64_t kThreads = 128;   // of a warpgroup
  static constexpr int64_t kRows = 64;       // of a warpgroup
  static constexpr int64_t kDepth = 64;      // 128 bytes of k, which are permuted as one
  static constexpr int64_t kPattern = 1024;  // eight rows of 128 bytes

  // Both outlive it; the stages are of kDepth and in groups.
  WgmmaProducts(CudaTileBlock& block, const CudaTileStages& stages)
      : block_(block), w_(block.writer()), stages_(stages) {
    block_.arrange_stage();
  }

  // Of a thread.
  int64_t sums() const { return block_.size().columns / 2; }
  // Of shared memory, for stages and later for the block of sums.
  int64_t shared_bytes() const;
  // The same where so many bytes lie behind the stages.
  int64_t shared_bytes(int64_t behind) const;
  // The same of paired products.
  int64_t shared_bytes_of_pair() const;
  // Declares the thread's `lane`, its warpgroup `group` and its sums.
  void declare_sums();
  // Declares the descriptors of the first stage's matrices that lie in it.
  void declare_matrices();
  // Begins the products of the first `depth` k of stage `stage`, a C expression, and ends their
  // group.
  void multiply(const std::string& stage, int64_t depth = kDepth);
  // The same of `depth` k from `first` on, with the left operand in registers, uint32_t
  // [depth / 16][4] of that name.
  void multiply_registers(const std::string& left, const std::string& stage, int64_t first,
                          int64_t depth);
  // Of paired products, whose sums are rounded: the first one's become kept[][] in shared memory,
  // which declare_kept() declares, and the thread's sums 0.
  void declare_kept();
  void keep();
  // After the last product: adds what blocks share, and stores the block from the sums, which go
  // through shared memory.
  void store();

 private:
  static constexpr int64_t kStep = 16;  // of k, that one product takes
  static constexpr int64_t kPad = 8;    // of the product's rows in shared memory

  // A row of chunks, in bytes: what is permuted as one.
  int64_t swizzle(const CudaTileStages::Operand& x) const;
  // The function that multiplies.
  std::string_view product() const;
  // Begins a group of products with stage `stage`.
  void begin_products(const std::string& stage);
  // Of the block's sums in shared memory.
  int64_t sums_bytes() const;
  // Where those of the first of paired products begin.
  int64_t kept_at() const;
  // C code that leaves all sums of a thread in `rows` of shared memory.
  std::string leave_all(const std::string& rows) const;
  // Threads whose warps have rows of the product, a C expression.
  std::string held_threads() const;
  // C code that leaves two neighbours' sums at C expression `place` of shared memory.
  std::string leave(const std::string& place, const std::string& first,
                    const std::string& second) const;
  // From a step of 16 k to the next, in 16 bytes.
  int64_t step_units(const CudaTileStages::Operand& x) const;

  CudaTileBlock& block_;
  common::CodeWriter& w_;
  const CudaTileStages& stages_;
};

}  // namespace worker
