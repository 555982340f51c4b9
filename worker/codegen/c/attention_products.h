// The two products of the kAttention template for a unit's rows and a block of keys [n0, n1):
// queries times keys, and exponentials times values.
#pragma once

#include <optional>
#include <string>

#include "common/lowering/attention/attention_operands.h"
#include "worker/codegen/c/attention_sizes.h"
#include "worker/codegen/c/attention_tiles.h"
#include "worker/codegen/c/attention_values.h"

namespace worker {

class AttentionProducts {
 public:
  // The arguments outlive it. The batch of `operands` is not set yet.
  AttentionProducts(const common::Graph& body, const common::AttentionOperands& operands,
                    const AttentionSizes& sizes, std::optional<ValuesInPlace> in_place,
                    AttentionTiles& tiles, common::CodeWriter& writer,
                    common::BodyEmitter& emitter);

  // scores[m - m0][n - origin] for keys [n0, n1).
  void multiply_keys(const std::string& origin);
  // sums[m - m0] += the exponentials of keys [n0, n1) times their values.
  void multiply_values(const std::string& origin);

 private:
  Panel key_panel();
  Panel value_panel();
  // Each key once, for all rows of a unit, where it lies.
  void dot_products(const std::string& origin);

  const common::Graph& body_;
  const common::AttentionOperands& operands_;
  const AttentionSizes& z_;
  std::optional<ValuesInPlace> in_place_;
  AttentionTiles& tiles_;
  common::CodeWriter& writer_;
  common::BodyEmitter& emitter_;
  std::string score_stride_;
  bool keys_transposed_ = false;    // the keys' memory runs along the depth
  bool values_transposed_ = false;  // the values' runs along the keys
};

}  // namespace worker
