// What attention kernels whose scores stay in registers have in common: which keys a block of rows
// sees, how scores become probabilities, and how results are stored. How operands come into shared
// memory and are multiplied is left to derived classes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/lowering/attention/half_attention.h"
#include "worker/codegen/cuda/attention/attention_panels.h"

namespace worker {

// Of a block: rows, keys of a step, and tiles of 16 rows that a warp has.
struct ScoreBlock {
  int64_t rows = 64, keys = 64, tiles = 1;

  int64_t warps() const { return rows / (16 * tiles); }
};

// Thread t of four in group g of eight has, of each tile of 16 rows, the scores and sums of rows g
// and g + 8 in columns 2 t and 2 t + 1 of each eight: dot[tile][j][half * 2 + c], and sum likewise.
// Such a pair of rows' columns is a slot: tile * 2 + half. top[slot] is a row's greatest score so
// far, total[slot] the thread's part of the sum of the row's exponentials.
class CudaAttentionScores : public CudaAttentionPanels {
 protected:
  enum class Pass { kOnline, kTotals, kProducts };

  // `attention` outlives it.
  CudaAttentionScores(const common::HalfAttention& attention, const ScoreBlock& block);

  int64_t tiles() const { return block_.tiles; }
  int64_t slots() const { return 2 * tiles(); }
  int64_t threads() const { return 32 * block_.warps(); }  // that have rows
  int64_t key_tiles() const { return block_.keys / 8; }
  int64_t width_tiles() const { return values_.padded() / 8; }

  // Names the block's rows and its elements of the batch; returns how many blocks there are.
  common::Expr begin();
  // Declares the block's keys [lo, hi), of which every row sees [from, until). Whether threads meet
  // on the way. `limits`: where in shared memory warps leave their ranges, kFlashLimitBytes.
  bool find_range(int64_t limits);
  // Of the blocks of keys that begin at lo, those of [begin, end) are whole and every row sees
  // them; others are on a border. `ahead`: as many after them are whole, too.
  void find_inner_blocks(int64_t ahead);
  std::string key_count() const;
  // The index of a key that is there.
  common::Expr whole_key(const std::string& key);
  // Sums, greatest scores and totals before the first block of keys.
  void declare_sums();

  // Scores of the keys from n0 on become exponentials, or with kProducts probabilities. Inside
  // nothing is asked of positions. With kOnline turn[slot] is by what sums change.
  void weigh(Pass pass, bool inside);
  void turn_sums();
  // Declares the probabilities of 16 keys, dot[i][k * 2] and the next, as the product takes them,
  // and what rounding left of them: a[i][4], rest[i][4].
  std::string packed() const;
  // Normalises the sums, if that is still to do, and stores what follows from them.
  void store(bool online);

  ScoreBlock block_;
  common::DType dtype_;      // of values, and of the probabilities they are multiplied with
  bool splits_;              // probabilities are not rounded
  bool is_limited_ = false;  // positions hide keys from rows
  bool is_whole_ = false;    // all blocks of keys are whole, and every row sees them
  bool flows_ = true;
  Panel queries_, keys_, values_;

 private:
  std::optional<double> find_scale(common::NodeId id) const;
  std::optional<double> constant_of(common::NodeId id) const;
  // `seen`: nothing is asked of positions; `whole`: all keys are there.
  void weigh_scores(bool seen, bool whole);
  void hide_scores();
  void see_positions(const common::Indices& at);
  void forward_scores(common::NodeId mask,
                      const std::function<common::Indices(common::NodeId)>& place);
  std::string each_score() const;
  void exponentiate(Pass pass, double scale);
  void normalise();
  void store_registers(int64_t run, const std::string& scale);

  std::optional<double> scale_;  // see find_scale()
  // Threads keep the first and last keys that their rows see, beyond which scores are hidden on
  // borders, where they have registers for it.
  bool keeps_limits_ = false;
  std::vector<std::vector<common::Expr>> rows_;  // of each slot
};

}  // namespace worker
