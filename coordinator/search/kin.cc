#include "coordinator/search/kin.h"

namespace coordinator {

common::Digest kin_key(const RegionSpace& space, const common::Target& target,
                       const std::string& policy) {
  const EGraph& graph = *space.saturated().graph;
  common::Hasher hasher;
  hasher.text("kin").text(target.name).text(policy);
  for (NodeId node = 0; node < graph.node_ids(); ++node) {
    if (!graph.is_live(node)) continue;
    hasher.u64(node).u64(graph.class_of(node)).u64(graph.family(graph.head(node)));
    for (ClassId child : graph.children(node)) hasher.u64(graph.find(child));
  }
  return hasher.finish();
}

}  // namespace coordinator
