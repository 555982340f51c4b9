// Attention forms that were found before, in any selection of one region: a search asks for the
// same few of them tens of thousands of times.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/search/partition/materialisation.h"

namespace coordinator {

// What the choice of materialised values asks of a common::AttentionForm.
struct AttentionParts {
  common::NodeId scores = 0;
  // Operands of the scores and of the product: all of these are read for each block of rows.
  common::NodeId keys = 0, values = 0;
  std::vector<common::NodeId> members;     // see AttentionForm
  std::optional<common::NodeId> obstacle;  // the first one
};

// Not thread-safe. For selections from one e-graph: genes and choices name what they say there.
class AttentionMemo {
 public:
  // Of the contraction `product`, whatever its lowering; `is_stored` as common::attention_form()
  // has it. Empty when it is no attention.
  std::optional<AttentionParts> find(const Selected& selected, common::NodeId product,
                                     const std::function<bool(common::NodeId)>& is_stored);

 private:
  std::unordered_map<uint64_t, std::optional<AttentionParts>> known_;  // nodes by place in the walk
};

}  // namespace coordinator
