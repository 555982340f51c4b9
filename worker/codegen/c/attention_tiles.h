// The two products of the kAttention template: blocks packed into panels of columns, and register
// tiles that read them.
#pragma once

#include <functional>
#include <string>

#include "common/lowering/body/body_emitter.h"

namespace worker {

// Columns [c0, c1) of steps [s0, s1), packed into panels of `width` columns: step s and column c
// lie at panels + (cb - c0) * panel_steps + (s - s0) * width + (c - cb), where the panel starts at
// cb.
struct Panel {
  std::string column, step;  // C names of the indices
  common::Expr column_extent, step_extent;
  std::string c0, c1, s0, s1;
  int64_t width = 0;
  std::string panels, panel_steps;
  std::function<std::string(common::BodyEmitter&, const common::Expr& column,
                            const common::Expr& step)>
      element;
};

// Rows [m0, m1) of `to`, columns [c0, c1): left[row][step] * right[step][column], summed over steps
// [s0, s1). Whole tiles are written: memory past the last row and column must be there.
struct Product {
  std::string c0, c1, s0, s1;
  std::function<std::string(const std::string& row)> left;  // where a row's step 0 would be
  // Where the panel that starts at column j has step s0; or, in place, where step `n` has column j.
  std::string right;
  std::function<std::string(const common::Expr& step)> in_place;
  common::Expr step_extent;                        // in place
  common::DType stored = common::DType::kFloat32;  // in place: the product's, or a half type
  std::string to, to_stride;                       // of row i and column j
  bool adds = false;                               // to what is there
};

// Sums that stay in registers: rows by columns, which are whole vectors.
struct ProductTile {
  int64_t mr = 0, nr = 0;
};

class AttentionTiles {
 public:
  // `type` is of the elements; vectors have `lanes` of them.
  AttentionTiles(const common::Graph& body, common::CodeWriter& writer,
                 common::BodyEmitter& emitter, std::string type, int64_t lanes)
      : body_(body), writer_(writer), emitter_(emitter), type_(std::move(type)), lanes_(lanes) {}

  // Whether the panel's memory runs along steps rather than columns: a trial emission shows it.
  // Nothing that `element` depends on may be bound yet.
  bool runs_along_steps(const Panel& panel) const;
  // `transposed`: by squares that are read along the steps.
  void pack(const Panel& panel, bool transposed);
  void multiply(const Product& product, const ProductTile& tile);
  // Closes the innermost loop, which visits i in [from, to); the pragma goes before it unless it
  // holds other loops.
  void close_vector_loop(const std::string& i, const std::string& from, const std::string& to,
                         std::string_view pragma = "LF_VECTOR_LOOP(0, 1)");
  // C: of the elements.
  const std::string& type() const { return type_; }

 private:
  void pack_transposed(const Panel& panel);
  // Columns come from `b`, of type `stored`.
  void accumulate(const ProductTile& tile, common::DType stored);

  const common::Graph& body_;
  common::CodeWriter& writer_;
  common::BodyEmitter& emitter_;
  std::string type_;
  int64_t lanes_;
};

}  // namespace worker
