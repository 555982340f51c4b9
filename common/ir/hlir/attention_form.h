// Whether a contraction is attention: the softmax of scores along the keys, times values. Rules,
// fusion and code generators ask here, so that they agree on what one kernel can hold.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/ir/hlir/graph.h"

namespace common {

// Of attention on a processor: rows of a unit and keys of a block where the schedule says nothing.
inline constexpr int64_t kAttentionRows = 64, kAttentionKeys = 128;
// So few rows are not worth packing keys and values for.
inline constexpr int64_t kAttentionSkinnyRows = 4;

// product[batch, row, column] = sum over keys of f(softmax(g(scores)))[batch, row, key]
//                                                * values[batch, key, column],
// with scores = sum over depth of queries[batch, row, depth] * keys[batch, key, depth], and f and g
// elementwise. Rows share keys and values. Labels are those of the product's ContractAttr.
struct AttentionForm {
  // Added to a score of up to 1e30 leaves nothing of it.
  static constexpr double kHiddenScore = -1e38;

  // What f makes of a row's probabilities: the weights of its values.
  struct Weights {
    // The same multiple of every probability, so that a row may be normalised after the product.
    bool scales_rows = false;
    // Probabilities rounded to this half-precision type, and otherwise such a multiple.
    std::optional<DType> rounds_to;
    // A probability of 0 stays 0, so that keys which no row sees may be left out.
    bool keeps_zero = false;
  };
  struct Mask {
    NodeId node = 0;
    bool is_added = false;
    bool hides = false;
    bool is_positional = false;  // it hides a key exactly where `first` and `last` do
  };
  struct HiddenKeys {
    // A key is hidden from a row unless it is at least each of `first` and at most each of `last`:
    // expressions over i<label>.
    std::vector<Expr> first, last;
    // What hides keys besides, as data says: a key is hidden from a row where an added mask is as
    // low as kHiddenScore, or where a condition is `hides`, as long as the row sees another.
    std::vector<Mask> masks;
  };

  NodeId product = 0;
  NodeId softmax = 0;
  NodeId scores = 0;               // a kContract
  std::optional<NodeId> greatest;  // the maximum of g(scores) in each row, where f uses it
  int probabilities = 0;           // which operand of the product; the other holds the values
  int queries = 0;                 // which operand of the scores; the other holds the keys
  std::vector<Expr> label_size;
  std::vector<int> batch, rows, columns;  // in the order of the product's axes
  int key = 0;
  Weights weights;
  HiddenKeys hidden;
  // What must be computed in place, from the scores up to the product, these two included.
  std::vector<NodeId> members;
  // What must be stored, because no loop over keys can hold it: none in a kernel's body.
  std::vector<NodeId> obstacles;

  Expr size(const std::vector<int>& labels) const;  // the product of the labels' sizes
  // Whether keys that no row sees may be left out, and masks alone say which: data, not positions.
  bool is_hidden_by_masks() const {
    return weights.keeps_zero && !hidden.masks.empty() && hidden.first.empty() &&
           hidden.last.empty();
  }
};

// `is_stored` says which computed nodes the kernel would only read. Empty when the contraction
// `product` is no attention, or its width or depth is no small constant.
std::optional<AttentionForm> attention_form(const Graph& graph, NodeId product,
                                            const std::function<bool(NodeId)>& is_stored);
// For a kernel's body: the only contraction that is attention, without obstacles.
std::optional<AttentionForm> attention_form(const Graph& body);

// The indices at which `from`, demanded at `at`, demands `target`, seen through elementwise nodes
// and views that are valid everywhere; empty when it does not. `simplify` is applied on the way.
std::optional<std::vector<Expr>> demanded_at(const Graph& graph, NodeId from, std::vector<Expr> at,
                                             NodeId target,
                                             const std::function<Expr(const Expr&)>& simplify);

}  // namespace common
