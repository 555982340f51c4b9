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
  struct Panel {
    common::NodeId node = 0;
    int64_t rows = 0, length = 0;
    std::vector<int> labels;  // of a row
    OperandAt at;

    int64_t padded() const { return (length + 15) / 16 * 16; }
    int64_t chunks() const { return padded() / 8; }
    int64_t row_bytes() const { return padded() * 2; }
    int64_t bytes() const { return rows * row_bytes(); }
    // The turn of row C expression `row`.
    std::string turn(const std::string& row) const;
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
  void compute_chunk(const Panel& panel, const std::string& target,
                     const std::vector<common::Expr>& at, const std::string& valid);
};

}  // namespace worker
