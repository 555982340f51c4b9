#include "coordinator/search/records/known_kernels.h"

#include <algorithm>
#include <utility>

#include "common/ir/hlir/graph_hash.h"

namespace coordinator {

std::optional<TuningRecord> KnownKernels::take(const MeasurementSource& source,
                                               const common::Digest& key,
                                               const common::Graph& graph) {
  auto known = source.record(TuningRecordKind::kRegion, key);
  if (!known || !fits(*known, graph)) return std::nullopt;
  times_.estimate(known->program);  // asks for what its kernels take
  for (const common::Kernel& kernel : known->program.kernels) {
    fingerprints_.insert(common::kernel_fingerprint(kernel));
  }
  return known;
}

KnownKernels::Count KnownKernels::count(const common::Program& program) {
  Count count;
  std::vector<char> counted(program.kernels.size(), 0);
  for (const common::Call& call : program.calls) {
    auto k = static_cast<size_t>(call.kernel);
    if (std::exchange(counted[k], 1)) continue;
    const common::Kernel& kernel = program.kernels[k];
    KernelId id = times_.intern(kernel, common::graph_hash(kernel.body), call);
    ++count.all;
    count.known += fingerprints_.count(common::kernel_fingerprint(kernel)) != 0 ||
                   times_.is_earlier(id, code_of(kernel.form, kernel.schedule));
  }
  return count;
}

void add_kernels(const TuningRecord& region, const KernelTimes& times, const SearchOptions& options,
                 std::map<common::Digest, TuningRecord>& all) {
  for (const common::Kernel& kernel : region.program.kernels) {
    common::Digest body = common::graph_hash(kernel.body);
    auto best = times.best(kernel.form, body);
    if (!best) continue;
    TuningRecord& record = all[kernel_key(kernel.form, body, options.target, options.machine)];
    record.effort.candidates = std::max(record.effort.candidates, region.effort.candidates);
    record.effort.ms = std::max(record.effort.ms, region.effort.ms);
    record.ns = best->ns;
    record.schedule = best->code;
  }
}

}  // namespace coordinator
