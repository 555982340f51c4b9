#include "common/ir/roll/roll_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "common/base/hash64.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/text.h"

namespace common {
namespace {

// A chain must save at least this many nodes to be worth a loop.
constexpr size_t kMinSavedNodes = 6;
// Neighbourhoods are compared at each power of two up to this depth: shallow ones keep the first
// and last blocks, which border on something else, deep ones tell apart places within a block and
// blocks within a longer period (six layers of Gemma are some 200 deep).
constexpr int kColourRounds = 256;
// Bounds on the work for graphs without structure.
constexpr size_t kMaxPairs = 50'000;
constexpr size_t kMaxPairsPerNode = 64;
constexpr size_t kMaxChains = 32;

uint64_t local_colour(const Node& node) {
  if (node.op == Op::kInput)
    return hash64(std::string(dtype_name(node.dtype)) + shape_text(node.shape));
  return hash64(describe(node));
}

class ChainSearch {
 public:
  explicit ChainSearch(const Graph& graph) : graph_(graph) {}

  std::optional<Chain> run() {
    std::vector<uint64_t> colour;
    for (const Node& node : graph_.nodes) colour.push_back(local_colour(node));
    same_operation_ = classes_of(colour);
    // Nodes with alike neighbourhoods are likely to be at the same place of different blocks.
    std::vector<uint64_t> next(colour.size());
    for (int round = 1, checked = 0; round <= kColourRounds; ++round) {
      for (size_t i = 0; i < colour.size(); ++i) {
        next[i] = colour[i];
        for (NodeId operand : graph_.nodes[i].operands) {
          next[i] = combine64(next[i], colour[at(operand)]);
        }
      }
      colour.swap(next);
      if (round < 2 * checked) continue;
      checked = round;
      for (const Tuple& members : classes_of(colour)) add_class(members);
    }
    try_promising();
    // Short chains differ from their start in every neighbourhood: try pairs of equal operations.
    if (!best_) {
      for (const Tuple& members : same_operation_) add_pairs(members);
      try_promising();
    }
    if (best_) shift_ends();
    if (best_) shrink_carried();
    if (best_) finish_carried();
    return std::move(best_);
  }

 private:
  bool can_anchor(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op != Op::kInput && node.op != Op::kLoop && node.op != Op::kLoopResult &&
           node.op != Op::kView && !is_free(graph_, id);
  }

  // In the order of their first members, those with at least two.
  std::vector<Tuple> classes_of(const std::vector<uint64_t>& colour) const {
    std::unordered_map<uint64_t, size_t> index;
    std::vector<Tuple> classes;
    for (size_t i = 0; i < colour.size(); ++i) {
      auto id = static_cast<NodeId>(i);
      if (!can_anchor(id)) continue;
      auto [it, is_new] = index.emplace(colour[i], classes.size());
      if (is_new) classes.emplace_back();
      classes[it->second].push_back(id);
    }
    std::erase_if(classes, [](const Tuple& members) { return members.size() < 2; });
    return classes;
  }

  const PairEstimate& pair(NodeId first, NodeId second) {
    auto [it, is_new] = pairs_.try_emplace(std::pair{first, second});
    if (is_new) it->second = estimate_pair(graph_, first, second);
    return it->second;
  }
  const PairEstimate& last_pair(const Tuple& anchors) {
    return pair(anchors[anchors.size() - 2], anchors.back());
  }

  struct Promise {
    size_t saved_max;
    size_t carried;
    Tuple anchors;
    // Bounds are rough, so that of those which nearly agree the simplest goes first.
    auto order() const {
      int magnitude = static_cast<int>(8 * std::log2(static_cast<double>(saved_max)));
      return std::tuple(-magnitude, carried, anchors.front(), anchors.size());
    }
  };

  void promise(Tuple anchors) {
    const PairEstimate& last = last_pair(anchors);
    if (last.saved == 0) return;
    // No more blocks than that fit, in front or altogether.
    size_t before = last.initial < 0 ? 0 : at(anchors[0]) / last.saved;
    size_t saved_max = std::min(last.saved * (anchors.size() - 1 + before),
                                discounted(graph_.nodes.size(), last.carried));
    if (saved_max >= kMinSavedNodes) {
      promising_.push_back({saved_max, last.carried, std::move(anchors)});
    }
  }

  // The last member may stand behind the repeated part.
  void add_class(const Tuple& members) {
    if (last_pair(members).saved != 0) {
      promise(members);
    } else if (members.size() > 2) {
      promise(Tuple(members.begin(), members.end() - 1));
    }
  }

  void add_pairs(const Tuple& members) {
    for (size_t last = members.size(); last-- > 1;) {
      for (size_t tried = 1; tried <= std::min(last, kMaxPairsPerNode); ++tried) {
        if (pairs_.size() > kMaxPairs) return;
        promise({members[last - tried], members[last]});
      }
    }
  }

  void try_promising() {
    std::stable_sort(promising_.begin(), promising_.end(),
                     [](const Promise& a, const Promise& b) { return a.order() < b.order(); });
    tried_.clear();
    for (const Promise& promise : promising_) {
      if (best_ && best_->saved() > promise.saved_max) continue;
      if (best_ && best_->carried.size() < promise.carried &&
          best_->saved() >= promise.saved_max / 8 * 7) {
        continue;
      }
      if (tried_.size() > kMaxChains) break;
      auto chain = try_chain(extended(promise.anchors));
      if (!chain) chain = try_chain(extended(like_suffix(promise.anchors)));
      if (chain && chain->saved() >= kMinSavedNodes && (!best_ || better(*chain, *best_))) {
        best_ = std::move(chain);
      }
    }
    promising_.clear();
  }

  std::optional<Chain> try_chain(const Tuple& anchors) {
    return tried_.insert(anchors).second ? find_chain(graph_, anchors) : std::nullopt;
  }

  static bool better(const Chain& a, const Chain& b) {
    if (a.saved() != b.saved()) return a.saved() > b.saved();
    if (a.carried.size() != b.carried.size()) return a.carried.size() < b.carried.size();
    return a.carried[0].initial < b.carried[0].initial;
  }

  // What the first block starts from may itself be the result of one more such block.
  Tuple extended(Tuple anchors) {
    Tuple earlier;
    NodeId first = anchors[0];
    NodeId initial = pair(first, anchors[1]).initial;
    while (initial >= 0 && can_anchor(initial) && pair(initial, first).saved != 0) {
      earlier.push_back(initial);
      NodeId next = pair(initial, first).initial;
      first = std::exchange(initial, next);
    }
    anchors.insert(anchors.begin(), earlier.rbegin(), earlier.rend());
    return anchors;
  }

  // The same repetition may be cut at any value that it carries; some cuts take in more blocks.
  void shift_ends() {
    for (bool shifted = true; std::exchange(shifted, false);) {
      std::vector<CarriedValue> ends = best_->carried;
      for (const CarriedValue& end : ends) {
        auto chain = try_chain(continued(extended(end.place)));
        if (!chain || !better(*chain, *best_)) continue;
        best_ = std::move(chain);
        shifted = true;
      }
    }
  }

  // As far as sizes are known.
  double elements_of(NodeId id) const {
    double elements = 1;
    for (const Expr& size : graph_.node(id).shape) {
      if (size.is_constant()) elements *= static_cast<double>(size.constant());
    }
    return elements;
  }
  double bytes_of(NodeId id) const {
    return elements_of(id) * static_cast<double>(dtype_size(graph_.node(id).dtype));
  }
  // Of all that the chain carries.
  double carried_elements(const Chain& chain) const {
    double sum = 0;
    for (const CarriedValue& value : chain.carried) sum += elements_of(value.initial);
    return sum;
  }

  // The places that read a carried value, through views or as it is.
  std::vector<Tuple> readers_of_carried(const Chain& chain) const {
    std::set<std::pair<NodeId, NodeId>> carried;  // in the first block and in the last
    for (const CarriedValue& value : chain.carried) {
      carried.emplace(value.initial, value.place[value.place.size() - 2]);
    }
    std::vector<Tuple> readers;
    for (const Tuple& place : chain.interior) {
      const Node &first = graph_.node(place.front()), &last = graph_.node(place.back());
      for (size_t k = 0; k < first.operands.size(); ++k) {
        if (carried.count({first.operands[k], last.operands[k]}) == 0) continue;
        if (first.op == Op::kView) {
          carried.emplace(place.front(), place.back());
        } else {
          readers.push_back(place);
        }
        break;
      }
    }
    return readers;
  }

  // A cut between a product and its sum would carry the product, which nobody else would store: the
  // blocks end behind what reads it where that carries much less.
  void shrink_carried() {
    constexpr double kMuchLess = 0.25;
    for (bool shrunk = true; std::exchange(shrunk, false);) {
      for (const Tuple& reader : readers_of_carried(*best_)) {
        if (reader.size() < 3) continue;
        // What the first one reads was computed outside of the blocks.
        Tuple anchors(reader.begin() + 1, reader.end());
        auto chain = find_chain(graph_, continued(extended(std::move(anchors))));
        bool is_less = chain && carried_elements(*chain) < kMuchLess * carried_elements(*best_) &&
                       chain->saved() >= best_->saved() / 8 * 7;
        if (!is_less) continue;
        best_ = std::move(chain);
        shrunk = true;
        break;
      }
    }
  }

  // The places that one carried value goes through, none of which is read by two: its only reader,
  // that one's, and so on.
  std::vector<Tuple> way_of_carried(const Chain& chain) const {
    std::vector<Tuple> way;
    if (chain.carried.size() != 1) return way;
    const CarriedValue& value = chain.carried[0];
    std::pair<NodeId, NodeId> now{value.initial, value.place[value.place.size() - 2]};
    while (true) {
      const Tuple* reader = nullptr;
      for (const Tuple& place : chain.interior) {
        const Node &first = graph_.node(place.front()), &last = graph_.node(place.back());
        for (size_t k = 0; k < first.operands.size(); ++k) {
          if (std::pair{first.operands[k], last.operands[k]} != now) continue;
          if (reader != nullptr && reader != &place) return way;
          reader = &place;
        }
      }
      bool goes_on = reader != nullptr && can_anchor(reader->front()) &&
                     graph_.node(reader->front()).shape == graph_.node(now.first).shape;
      if (!goes_on) return way;
      way.push_back(*reader);
      now = {reader->front(), reader->back()};
    }
  }

  // What is carried is stored, so the blocks end behind what makes it of a narrower type, or behind
  // what follows that in a type as narrow: a bound of a rounded sum, not the sum. They end behind
  // elementwise work, too, which the kernel takes in that makes the value: it is computed there
  // once, and not by each that reads it.
  void finish_carried() {
    constexpr double kLess = 0.5;
    const std::vector<Tuple> way = way_of_carried(*best_);
    double whole = bytes_of(best_->carried[0].initial), least = kLess * whole;
    for (const Tuple& place : way) {
      const Node& node = graph_.node(place.front());
      const double bytes = bytes_of(place.front());
      if (bytes > (is_elementwise(node.op) ? whole : least)) continue;
      // What the first one reads was computed outside of the blocks.
      Tuple anchors = continued(Tuple(place.begin() + 1, place.end()));
      if (anchors.size() < 2) continue;
      auto chain = find_chain(graph_, extended(std::move(anchors)));
      bool is_finished = chain && chain->carried.size() == 1 &&
                         bytes_of(chain->carried[0].initial) <= bytes &&
                         chain->saved() >= best_->saved() / 8 * 7;
      if (!is_finished) continue;
      best_ = std::move(chain);
      whole = bytes;
      least = std::min(least, bytes);
    }
  }

  // With the blocks that follow the last.
  Tuple continued(Tuple anchors) {
    auto has_last = [&](const Tuple& members) {
      return std::ranges::binary_search(members, anchors.back());
    };
    auto members = std::ranges::find_if(same_operation_, has_last);
    if (members == same_operation_.end()) return anchors;
    size_t saved = anchors.size() > 1 ? last_pair(anchors).saved : 1;
    size_t tried = 0;
    for (auto next = std::ranges::upper_bound(*members, anchors.back());
         next != members->end() && tried < kMaxPairsPerNode; ++next, ++tried) {
      if (pair(anchors.back(), *next).saved < saved) continue;
      anchors.push_back(*next);
      saved = std::max(saved, last_pair(anchors).saved);
      tried = 0;
    }
    return anchors;
  }

  // The blocks at the end that follow each other; a class may hold other places of the block.
  Tuple like_suffix(const Tuple& anchors) {
    size_t first = anchors.size() - 2;
    while (first > 0 && pair(anchors[first - 1], anchors[first]).saved != 0) --first;
    return Tuple(anchors.begin() + static_cast<std::ptrdiff_t>(first), anchors.end());
  }

  struct PairHash {
    size_t operator()(const std::pair<NodeId, NodeId>& pair) const {
      return combine64(static_cast<uint64_t>(pair.first), static_cast<uint64_t>(pair.second));
    }
  };

  const Graph& graph_;
  std::unordered_map<std::pair<NodeId, NodeId>, PairEstimate, PairHash> pairs_;
  std::vector<Promise> promising_;
  std::set<Tuple> tried_;
  std::vector<Tuple> same_operation_;
  std::optional<Chain> best_;
};

}  // namespace

std::optional<Chain> best_chain(const Graph& graph) { return ChainSearch(graph).run(); }

}  // namespace common
