#include "coordinator/search/records/tuning_records.h"

#include <algorithm>
#include <cmath>

#include "common/ir/hlir/graph_hash.h"
#include "common/plan/policy.h"
#include "coordinator/search/partition/normal_form.h"

namespace coordinator {
namespace {

// Tuning records of before machine classes keep their keys.
void add_machine(common::Hasher& hasher, const std::string& machine) {
  if (!machine.empty()) hasher.text(machine);
}

}  // namespace

common::Digest region_key(const common::Graph& region, const common::Target& target,
                          const std::string& policy, const std::string& machine) {
  // A bound on memory says which of a region's programs a whole one is made of, not what they are.
  common::PlanKey key{common::graph_hash(region), target,
                      std::string(common::numerics_part(policy)),
                      std::string(common::kCompilerEpoch)};
  common::Hasher hasher;
  hasher.text("region").digest(key.digest());
  add_machine(hasher, machine);
  return hasher.finish();
}

common::Digest kernel_key(common::Template form, const common::Digest& body,
                          const common::Target& target, const std::string& machine) {
  common::Hasher hasher;
  hasher.text("kernel")
      .u64(static_cast<uint64_t>(form))
      .digest(body)
      .text(target.name)
      .text(common::kCompilerEpoch);
  add_machine(hasher, machine);
  return hasher.finish();
}

common::Digest whole_key(const common::Graph& graph, const common::Target& target,
                         const std::string& policy, const std::string& machine) {
  common::PlanKey key{common::graph_hash(normal_form(graph)), target, policy,
                      std::string(common::kCompilerEpoch)};
  common::Hasher hasher;
  hasher.text("whole").digest(key.digest());
  add_machine(hasher, machine);
  return hasher.finish();
}

// Equal keys say that the graph is the same but for the numbers of its symbols; inputs of the same
// shapes say that those are, too, because the inputs show all the symbols that a graph uses.
bool fits(const TuningRecord& record, const common::Graph& graph) {
  const common::Program& program = record.program;
  bool is_alike = std::isfinite(record.ns) && record.ns >= 0 && !program.calls.empty() &&
                  program.symbols == graph.symbols &&
                  program.inputs.size() == graph.inputs.size() &&
                  program.outputs.size() == graph.outputs.size() && common::verify(program).ok();
  if (!is_alike) return false;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    const common::GraphOutput &a = program.outputs[k], &b = graph.outputs[k];
    if (a.kind != b.kind || a.input != b.input) return false;
  }
  for (size_t k = 0; k < graph.inputs.size(); ++k) {
    const common::GraphInput &a = program.inputs[k], &b = graph.inputs[k];
    if (a.kind != b.kind || a.dtype != b.dtype || a.shape != b.shape) return false;
  }
  return std::all_of(program.buffers.begin(), program.buffers.end(),
                     [&](const common::Buffer& buffer) {
                       if (buffer.kind != common::BufferKind::kOutput) return true;
                       const common::Node& node =
                           graph.node(graph.outputs[static_cast<size_t>(buffer.position)].node);
                       return buffer.dtype == node.dtype && buffer.shape == node.shape;
                     });
}

}  // namespace coordinator
