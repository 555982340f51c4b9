// Operands of attention in shared memory, in half precision, as tensor products read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/codegen/cuda/attention/attention_text.h"

namespace worker {

// A panel is rows of elements, padded with zeros to a multiple of 16, the depth of a product. The
// chunks of 16 bytes of a row change places as its number says (chunk ^ turn), so that the eight
// rows that ldmatrix reads meet every bank once.
class CudaAttentionPanels : public CudaAttentionText {
 protected:
  static constexpr int64_t kGroupBytes = 128;

  struct Panel : common::AttentionOperand {
    int64_t rows = 0;
    // Rows are cut into groups of 128 bytes, each a panel of its own, as warpgroup products read
    // them; rows are a multiple of 8.
    bool in_groups = false;

    int64_t padded() const { return (length + 15) / 16 * 16; }
    int64_t chunks() const { return padded() / 8; }
    int64_t row_bytes() const { return padded() * 2; }
    int64_t groups() const { return (row_bytes() + kGroupBytes - 1) / kGroupBytes; }
    int64_t group_bytes() const { return rows * kGroupBytes; }
    int64_t bytes() const { return in_groups ? groups() * group_bytes() : rows * row_bytes(); }
    // The turn of row C expression `row`.
    std::string turn(const std::string& row) const;
    // Where chunk C expression `chunk` of row `row` lies, in bytes.
    std::string place(const std::string& row, const std::string& chunk) const;
  };
  // Which rows are loaded: the indices of the row at C expression, and whether it is not 0.
  struct Source {
    std::function<std::vector<common::Expr>(const std::string& row)> at;
    std::string valid;  // a C expression over `row`; empty: all are
  };

  using CudaAttentionText::CudaAttentionText;

  // Whether a panel's chunks are copied from an input as they are. Others are computed.
  bool is_copied(const Panel& panel) const;
  // `threads` threads load the panel to C expression `to`: copies become part of their current
  // group, what is computed is there after a barrier.
  void load(const Panel& panel, const std::string& to, int64_t threads, const Source& source);

 private:
  void copy_chunk(const Panel& panel, const std::string& target,
                  const std::vector<common::Expr>& at, const std::string& valid);
  // Of a panel in groups: a warp computes a row, neighbouring lanes neighbouring elements.
  void compute_rows(const Panel& panel, const std::string& to, int64_t threads,
                    const Source& source);
  void compute_chunk(const Panel& panel, const std::string& target,
                     const std::vector<common::Expr>& at, const std::string& valid);
};

}  // namespace worker
