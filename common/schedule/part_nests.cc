#include "common/schedule/part_nests.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/contains.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/nest/lower_structure.h"
#include "common/schedule/cpu_nest.h"
#include "common/schedule/gpu_nest.h"

namespace common {
namespace {

constexpr int64_t kWide = 8;  // neighbours of two bytes that one access takes

// A scatter's threads take an element each.
GpuKernelFacts scatter_facts(const Graph& body, const std::vector<int64_t>& sizes) {
  constexpr double kThreads = 128, kInstructions = 64, kRounds = 2, kSerialLoads = 4;
  const Node& scatter = body.node(body.outputs[0].node);
  GpuKernelFacts f;
  for (double bytes : bytes_read(body, sizes)) f.dram_bytes += bytes;
  for (double bytes : bytes_written(body, sizes)) f.dram_bytes += bytes;
  f.sector_bytes = f.dram_bytes;
  f.block_threads = kThreads;
  double elements = count_elements(body.node(scatter.operands[1]).shape, sizes);
  f.blocks = std::max(1.0, std::ceil(elements / kThreads));
  f.thread_instructions = f.blocks * kThreads * kInstructions;
  double rounds = kRounds;
  for (const Node& node : body.nodes) {
    if (node.op != Op::kReduce) continue;
    double steps = count_elements(body.node(node.operands[0]).shape, sizes) /
                   std::max(1.0, count_elements(node.shape, sizes));
    rounds = std::max(rounds, steps / kSerialLoads);
  }
  f.wait_clocks = rounds * kGpuMemoryClocks;
  return f;
}

bool reduces(const Graph& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [](const Node& node) { return node.op == Op::kReduce; });
}

// What parts that reduce are asked for; 0: what suits each of them best alone.
struct GroupChoice {
  int64_t team = 0, access = 0, rows = 0;
};

// Groups of threads that are tried for all parts: the usual ones first, then those whole warps of
// which each thread takes as many blocks of the widest access, as 160 threads do of 2,560 elements.
std::vector<int64_t> teams_of(const Graph& body) {
  constexpr int64_t kMost = 512, kWarp = 32;
  std::vector<int64_t> teams{kWarp, 64, 128, 256};
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (body.nodes[id].op != Op::kReduce) continue;
    Expr elements = reduced_elements(body, static_cast<NodeId>(id));
    if (!elements.is_constant() || elements.constant() % kWide != 0) continue;
    const int64_t blocks = elements.constant() / kWide;
    for (int64_t size = 2 * kWarp; size <= std::min(kMost, blocks); size += kWarp) {
      if (blocks % size == 0 && !contains(teams, size)) teams.push_back(size);
    }
  }
  return teams;
}

Schedule schedule_of(const GroupChoice& groups) {
  Schedule schedule;
  if (groups.access != 0) schedule.push_back({"access", groups.access});
  if (groups.rows != 0) schedule.push_back({"rows", groups.rows});
  if (groups.team != 0) schedule.push_back({"team", groups.team});
  return schedule;
}

// `trials`: of each part.
Result<TimedParts> parts_with(const Kernel& kernel, const GroupChoice& groups,
                              const GpuMachine& machine, std::vector<GpuNestTrials>& trials) {
  const std::vector<WeightedSizes> sizes = priced_sizes(kernel.body.symbols);
  TimedParts result;
  const std::vector<std::vector<size_t>> outputs = horizontal_parts(kernel.body);
  for (size_t k = 0; k < outputs.size(); ++k) {
    Kernel part = horizontal_part(kernel, outputs, k);
    Graph body = lower_structure(part.body, Kept::kNone);
    result.nests.emplace_back();
    std::vector<GpuKernelFacts> facts;
    if (part.form == Template::kScatter && !is_looped_scatter(kernel, outputs[k][0])) {
      for (const WeightedSizes& each : sizes) facts.push_back(scatter_facts(body, each.sizes));
    } else {
      Schedule schedule = reduces(body) ? schedule_of(groups) : Schedule();
      LFARM_ASSIGN_OR_RETURN(TimedNest chosen,
                             choose_gpu_nest(body, schedule, machine, trials[k], false));
      result.nests.back() = std::move(chosen.nest);
      facts = std::move(chosen.facts);
    }
    if (k == 0) {
      result.facts = std::move(facts);
      continue;
    }
    for (size_t s = 0; s < sizes.size(); ++s) {
      result.facts[s] = one_launch(result.facts[s], facts[s]);
    }
  }
  return result;
}

}  // namespace

Result<TimedParts> choose_part_nests(const Kernel& kernel, const GpuMachine& machine) {
  constexpr double kGain = 0.999;  // of a later choice: what is nearer says nothing
  std::optional<TimedParts> best;
  double least = 0;
  std::vector<GroupChoice> choices{{}};
  std::vector<GpuNestTrials> trials(horizontal_parts(kernel.body).size());
  const Graph body = lower_structure(kernel.body, Kept::kNone);
  if (reduces(body)) {
    for (int64_t team : teams_of(body)) {
      choices.push_back({team, 0, 0});
      for (int64_t rows : {0, 4, 8}) choices.push_back({team, kWide, rows});
    }
  }
  for (const GroupChoice& groups : choices) {
    auto parts = parts_with(kernel, groups, machine, trials);
    if (!parts.ok()) {
      if (best) continue;
      return parts;
    }
    // A small part by itself waits for latencies that the launch hides behind larger ones.
    double ns = nest_preference_ns(parts->facts, priced_sizes(kernel.body.symbols), machine);
    if (best && ns >= kGain * least) continue;
    best = std::move(*parts);
    least = ns;
  }
  return std::move(*best);
}

Result<std::vector<LoopNest>> choose_cpu_part_nests(const Kernel& kernel,
                                                    const VectorTerms& terms) {
  std::vector<LoopNest> nests;
  const std::vector<std::vector<size_t>> outputs = horizontal_parts(kernel.body);
  for (size_t k = 0; k < outputs.size(); ++k) {
    Kernel part = horizontal_part(kernel, outputs, k);
    if (part.form == Template::kScatter) return unsupported("a scatter shares launches on GPUs");
    LFARM_ASSIGN_OR_RETURN(LoopNest nest,
                           choose_cpu_nest(lower_structure(part.body, Kept::kNone), {}, terms));
    nests.push_back(std::move(nest));
  }
  return nests;
}

}  // namespace common
