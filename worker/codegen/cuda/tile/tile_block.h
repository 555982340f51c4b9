// What all kernels that compute a contraction in blocks on a GPU share: which block of the product
// a block of threads computes, clamped indices for loading, and storing what becomes of the block.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/ir/llir/llir.h"
#include "common/lowering/body/contraction.h"
#include "common/lowering/loops/gpu_function.h"
#include "worker/codegen/cuda/text/text.h"
#include "worker/codegen/cuda/tile/tile_grouped.h"

namespace worker {

// Rows and columns of the product that a block of threads computes.
struct CudaBlockSize {
  int64_t rows = 64, columns = 64;
  int threads = 256;
  int64_t stores = 4;      // results that a thread stores together
  int cluster = 1;         // blocks that run at once, below each other
  bool is_beside = false;  // or beside each other

  int64_t rows_together() const { return is_beside ? rows : rows * cluster; }
  int64_t columns_together() const { return is_beside ? columns * cluster : columns; }
};

class CudaTileBlock {
 public:
  // `before`: of paired products, the one whose sums store() finds in shared memory, too.
  CudaTileBlock(const common::Contraction& contraction, CudaBlockSize size,
                const common::Contraction* before = nullptr);

  common::CodeWriter& writer() { return writer_; }
  common::BodyEmitter& emitter() { return emitter_; }
  const common::Contraction& contraction() const { return contraction_; }
  const CudaBlockSize& size() const { return size_; }
  // This block's index of each of the batch's labels.
  const std::vector<common::Expr>& batch() const { return batch_; }
  // "float" or "double".
  const std::string& type() const { return type_; }

  // Emits which block this is: m0 and n0, the thread's number `tid`, `memory` of that many shared
  // bytes. Where blocks next to each other share a product's block and its k, each has `kept`, that
  // many elements of scratch memory.
  // Shared memory begins at a multiple of `alignment` bytes.
  // `splits` may depend on symbols.
  void begin(int64_t shared_bytes, const common::Expr& splits = 1, int64_t kept = 0,
             int64_t alignment = 16);
  // Several lines of code.
  void lines(std::string_view text) { write_lines(writer_, text); }

  // A new index of the side's rows or columns, or of k, at C expression `position`, clamped to the
  // last one, bound in the innermost scope (outer: in the function's). It is never outside of the
  // operand, so no load needs a condition.
  common::Expr own_index(common::Side side, const std::string& position, bool outer = false);
  // The same for the first of a run of elements that is wholly inside or outside; outside, the
  // first run stands in.
  common::Expr own_chunk(common::Side side, const std::string& position);
  common::Expr k_index(const std::string& position, bool clamp = true);
  // The same, counting runs of 8 elements along k.
  common::Expr k_chunk(const std::string& position, bool clamp);
  // Whether whole blocks of `step` cover k, so that no k must be clamped or masked.
  bool covers_k(int64_t step) const;
  // The operand's value there, of the product's dtype when `widened`.
  std::string operand(common::Side side, const common::Expr& own, const common::Expr& k,
                      bool widened = true);
  common::Indices operand_at(common::Side side, const common::Expr& own,
                             const common::Expr& k) const {
    return contraction_.operand_at(side, batch_, own, k);
  }
  // Whether a table in shared memory says which rows of the side the block has.
  bool is_by_table(common::Side side) const { return runs_ && side == common::Side::kLeft; }
  std::string k_size() const { return writer_.rare_text(k_.filled); }

  // Where blocks share a k, declares this one's part of it, in whole steps of `depth` but for the
  // last, and ends it where nothing is left for it. The part's C expressions.
  void declare_part(int64_t depth);
  std::string part_begin() const { return is_split() ? "begin" : "0"; }
  std::string part_end() const { return is_split() ? "end" : k_size(); }
  // That, and `steps`: how many of `depth` cover the part; and where one begins.
  void declare_steps(int64_t depth);
  // The same where k has `filled` elements: those of the product, and zeros that fill up its parts.
  void declare_steps(int64_t depth, const common::Expr& filled);
  std::string step_begin(const std::string& step) const;
  // Where blocks share a k, all but the last one to finish leave their `count` sums of each thread,
  // whose i-th `sum` spells, and end; in that one the sums become those of all, in their order.
  void share_sums(int64_t count, const std::function<std::string(const std::string& i)>& sum);
  // The same where the first `held` threads have sums, whose number is a multiple of 4, and all
  // threads of the last block put them together: `take` spells what becomes of a float4 `q`, of
  // a thread's sums from `four` * 4 on.
  void spread_sums(
      int64_t count, const std::string& held,
      const std::function<std::string(const std::string& i)>& sum,
      const std::function<std::string(const std::string& thread, const std::string& four)>& take);
  // Whether blocks may share a k: then C variable `parts` says how many do.
  bool is_split() const { return !k_.splits.is_constant(1); }

  // Lets sums lie in shared memory as few bytes and in an order that suits their readers:
  // - rounded, where exchanged_sums() names a half type;
  // - else, where threads will store eight results at once and so read two chunks of 16 bytes,
  //   stage[row][column] at column ^ (column / 32 % 2 * 4), so that neighbours read each bank once.
  void arrange_stage();
  const std::optional<common::DType>& rounded() const { return rounded_; }
  bool is_permuted() const { return is_permuted_; }
  int64_t sum_bytes() const;

  // Stores what the body makes of rows [first, first + rows) of the block, which all threads see in
  // shared memory at stage[row - first][column], and those of the product before at kept[][].
  void store(const std::string& first, int64_t rows);

  common::Result<common::GpuFunction> finish();

 private:
  // Declares the product's sum of a place from C expression `stage` and says that its value there,
  // or of what rounds it, is known.
  void take_sum(const common::Contraction& product, const std::string& stage,
                const common::Indices& at);
  // How many neighbours of a result a thread stores at once, of `rows` from `first` on.
  int64_t store_width(bool along_rows, const std::string& first, int64_t rows) const;
  common::Expr bind_clamped(const std::string& position, const common::Expr& extent, bool clamp,
                            bool outer);
  std::string splits() const { return k_.splits.is_constant() ? k_.splits.text() : "splits"; }
  // Blocks next to each other that compute one part of the product, or parts below each other.
  std::string sharers() const;
  // Ends all blocks of a result but the last; there, `from` are the first part's elements, which
  // are `stride` from those of the next.
  std::string join(const std::string& vector) const;

  const common::Graph& body_;
  const common::Contraction& contraction_;
  const common::Contraction* before_;
  CudaBlockSize size_;
  common::CodeWriter writer_;
  common::BodyEmitter emitter_;
  std::string type_;
  std::vector<common::Expr> batch_;
  common::Expr units_ = 1;
  int64_t dynamic_bytes_ = 0;
  // How k is walked: parts, what is in memory of it, sums that a part leaves, a step.
  struct Walk {
    common::Expr splits = 1, filled;
    int64_t kept = 0, depth = 1;
  };
  Walk k_;
  bool flows_ = true, is_permuted_ = false;
  std::optional<common::DType> rounded_;  // the type of sums in shared memory
  std::optional<CudaRowRuns> runs_;
};

}  // namespace worker
