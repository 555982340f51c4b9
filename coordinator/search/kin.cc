#include "coordinator/search/kin.h"

#include <utility>

#include "common/plan/policy.h"

namespace coordinator {
namespace {

common::Digest any_machine_key(const RegionSpace& space, const SearchOptions& options) {
  return common::Hasher()
      .text("kin on any machine")
      .digest(kin_key(space, options.target, options.policy))
      .finish();
}

}  // namespace

common::Digest kin_key(const RegionSpace& space, const common::Target& target,
                       const std::string& policy, const std::string& machine) {
  const EGraph& graph = *space.saturated().graph;
  common::Hasher hasher;
  hasher.text("kin").text(target.name).text(common::numerics_part(policy));
  for (NodeId node = 0; node < graph.node_ids(); ++node) {
    if (!graph.is_live(node)) continue;
    hasher.u64(node).u64(graph.class_of(node)).u64(graph.family(graph.head(node)));
    for (ClassId child : graph.children(node)) hasher.u64(graph.find(child));
  }
  if (!machine.empty()) hasher.text(machine);
  return hasher.finish();
}

std::optional<TuningRecord> find_kin(const MeasurementSource& source, const RegionSpace& space,
                                     const SearchOptions& options) {
  auto own = source.record(TuningRecordKind::kKin,
                           kin_key(space, options.target, options.policy, options.machine));
  if (own) return own;
  auto other = source.record(TuningRecordKind::kKin, any_machine_key(space, options));
  if (!other) return std::nullopt;
  TuningRecord seed;
  seed.genome = std::move(other->genome);
  return seed;
}

void add_kin(const RegionSpace& space, const SearchOptions& options, TuningRecord record,
             std::map<common::Digest, TuningRecord>& all) {
  TuningRecord& seed = all[any_machine_key(space, options)];
  seed.effort = record.effort;
  seed.genome = record.genome;
  all[kin_key(space, options.target, options.policy, options.machine)] = std::move(record);
}

}  // namespace coordinator
