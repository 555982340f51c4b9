#include "worker/codegen/c/attention_products.h"

#include <utility>

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::AttentionOperands;
using common::BodyEmitter;
using common::cat;
using common::CodeWriter;
using common::counting_loop;
using common::Expr;
using common::Graph;

AttentionProducts::AttentionProducts(const Graph& body, const AttentionOperands& operands,
                                     const AttentionSizes& sizes,
                                     std::optional<ValuesInPlace> in_place, AttentionTiles& tiles,
                                     CodeWriter& writer, BodyEmitter& emitter)
    : body_(body),
      operands_(operands),
      z_(sizes),
      in_place_(std::move(in_place)),
      tiles_(tiles),
      writer_(writer),
      emitter_(emitter),
      score_stride_(writer.rare_text(sizes.score_stride())),
      keys_transposed_(tiles.runs_along_steps(key_panel())),
      values_transposed_(tiles.runs_along_steps(value_panel())) {}

Panel AttentionProducts::key_panel() {
  return {"n",
          "k",
          z_.key_count,
          Expr(z_.depth),
          "n0",
          "n1",
          "0",
          cat(z_.depth),
          z_.tiling.score_nr,
          "key_panels",
          cat(z_.depth),
          [this](BodyEmitter& e, const Expr& c, const Expr& s) { return operands_.key(e, c, s); }};
}

Panel AttentionProducts::value_panel() {
  return {
      "d",
      "n",
      Expr(z_.width),
      z_.key_count,
      "0",
      cat(z_.width),
      "n0",
      "n1",
      z_.tiling.sum_nr,
      "value_panels",
      cat(z_.tiling.keys),
      [this](BodyEmitter& e, const Expr& c, const Expr& s) { return operands_.value(e, s, c); }};
}

void AttentionProducts::multiply_keys(const std::string& origin) {
  if (z_.tiling.dots) {
    dot_products(origin);
    return;
  }
  tiles_.pack(key_panel(), keys_transposed_);
  Product product;
  product.c0 = "n0";
  product.c1 = "n1";
  product.s0 = "0";
  product.s1 = cat(z_.depth);
  product.left = [this](const std::string& row) {
    return cat("queries + ", row, " * ", z_.query_stride());
  };
  product.right = cat("key_panels + (j - n0) * ", z_.depth);
  product.to = cat("scores + (i - m0) * ", score_stride_, " + (j - ", origin, ")");
  product.to_stride = score_stride_;
  tiles_.multiply(product, {z_.tiling.score_mr, z_.tiling.score_nr});
}

void AttentionProducts::dot_products(const std::string& origin) {
  Expr key = Expr::index(writer_.open_loop("n", z_.key_count));
  std::string dots;
  for (int64_t m = 0; m < z_.tiling.rows; ++m) {
    dots += cat(m == 0 ? "" : ", ", "dot", m);
    writer_.line(cat(tiles_.type(), " dot", m, " = 0;"));
  }
  Expr k = Expr::index(writer_.open_loop("k", z_.depth));
  std::string x = operands_.key(emitter_, key, k);
  for (int64_t m = 0; m < z_.tiling.rows; ++m) {
    writer_.line(cat("dot", m, " += queries[", m * z_.query_stride(), " + k] * ", x, ";"));
  }
  std::string pragma =
      writer_.holds_loops() ? "" : cat("#pragma omp simd reduction(+:", dots, ")\n");
  writer_.close(cat(pragma, counting_loop("k", "0", cat(z_.depth))));
  for (int64_t m = 0; m < z_.tiling.rows; ++m) {
    writer_.line(cat("scores[", m, " * ", score_stride_, " + (n - ", origin, ")] = dot", m, ";"));
  }
  tiles_.close_vector_loop("n", "n0", "n1", "");
}

void AttentionProducts::multiply_values(const std::string& origin) {
  Product product;
  product.c0 = "0";
  product.c1 = cat(z_.width);
  product.s0 = "n0";
  product.s1 = "n1";
  product.left = [this, origin](const std::string& row) {
    return cat("scores + ", row, " * ", score_stride_, " - ", origin);
  };
  product.to = cat("sums + (i - m0) * ", z_.sum_stride(), " + j");
  product.to_stride = cat(z_.sum_stride());
  product.adds = true;
  if (in_place_) {
    product.step_extent = z_.key_count;
    product.stored = in_place_->stored;
    product.in_place = [this](const Expr& key) {
      return cat(in_place_->pointer, " + ",
                 writer_.text(writer_.simplify(value_offset(*in_place_, body_, operands_, key))));
    };
  } else {
    tiles_.pack(value_panel(), values_transposed_);
    product.right = cat("value_panels + j * ", z_.tiling.keys);
  }
  tiles_.multiply(product, {z_.tiling.sum_mr, z_.tiling.sum_nr});
}

}  // namespace worker
