// The checks that a graph gets of indices that a model's author gave (OutputKind::kCheck): where
// PyTorch raises, a run reports the index instead of reading a clamped place in silence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clients/pt2/aten/checked_builder.h"
#include "clients/pt2/aten/value_range.h"

namespace clients {

// A size that indices stay below, and how PyTorch takes those that don't.
struct IndexRange {
  Expr limit;
  bool wraps = false;               // indices from -limit on count from the end
  std::optional<int64_t> accepted;  // this value is no index and always right
};

class RangeChecks {
 public:
  explicit RangeChecks(Builder* b) : b_(*b), ranges_(*b) {}

  struct Check {
    NodeId value = 0;
    int input = -1;  // graph input that the positions are of; -1: none
    IndexRange range;
    std::string source;
  };
  // Computes a check of an integer tensor, unless the graph itself says that it holds, or another
  // check does. Of views and casts the tensor behind them is checked.
  void add(NodeId index, const IndexRange& range, const std::string& source);
  const std::vector<Check>& checks() const { return checks_; }

 private:
  // A tensor behind an index tensor, which reads it through a view.
  struct Source {
    NodeId base = 0;
    View view;
  };
  Source behind(NodeId index) const;
  View without_repeats(const Source& source) const;
  bool reads_all(const Source& source) const;
  bool is_certain(NodeId index, const IndexRange& range, bool* low, bool* high);
  bool is_known(NodeId values, const IndexRange& range) const;
  NodeId flat(NodeId x);

  struct Known {
    NodeId values = 0;
    IndexRange range;
  };
  Builder& b_;
  ValueRanges ranges_;
  std::vector<Known> known_;
  std::vector<Check> checks_;
};

}  // namespace clients
