#include "common/schedule/reductions/independent_reductions.h"

#include "common/ir/nest/reduction_fusion.h"

namespace common {

std::map<NodeId, std::vector<NodeId>> independent_reductions(
    const Graph& body, const std::vector<EmittedReduction>& emitted) {
  std::map<NodeId, std::vector<NodeId>> fused;
  std::vector<char> taken(emitted.size(), 0);
  for (size_t i = 0; i < emitted.size(); ++i) {
    if (taken[i] != 0) continue;
    std::vector<NodeId> group = {emitted[i].id};
    for (size_t j = i + 1; j < emitted.size(); ++j) {
      bool is_here =
          emitted[i].level == emitted[j].level && emitted[i].indices == emitted[j].indices;
      if (taken[j] != 0 || !is_here || !can_fuse(body, group, emitted[j].id)) continue;
      group.push_back(emitted[j].id);
      taken[j] = 1;
    }
    if (group.size() > 1) fused[group[0]].assign(group.begin() + 1, group.end());
  }
  return fused;
}

}  // namespace common
