// The coordinator's passes over a graph, in order, each with what it makes as text: for `lfarm
// print`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/plan/plan.h"
#include "coordinator/rules/rule_set.h"
#include "coordinator/search/partition/partition.h"
#include "coordinator/search/space/region_space.h"

namespace coordinator {

// A graph on its way through the passes, as a search for the target would take it. What a pass
// makes is made when it is first asked for.
class Compilation {
 public:
  Compilation(common::Graph graph, common::Target target, Numerics numerics);
  const common::Graph& graph() const { return graph_; }
  const common::Target& target() const { return target_; }
  const Partition& partition();
  // One a region, saturated.
  std::vector<std::unique_ptr<RegionSpace>>& spaces();

 private:
  common::Graph graph_;
  common::Target target_;
  Numerics numerics_;
  std::unique_ptr<Partition> partition_;
  std::vector<std::unique_ptr<RegionSpace>> spaces_;
};

struct Pass {
  std::string_view name;   // "regions"
  std::string_view makes;  // for people: "the graph cut at its loops, equal parts once"
  std::string (*print)(Compilation&);
};
std::span<const Pass> passes();

// The whole graph's program as it is before anything was measured.
common::Program default_program(Compilation& compilation);

// `lfarm-coordinator print --stage NAME|all|encoded --target NAME [--numerics POLICY]`: reads an
// encoded graph from standard input and writes what the pass of that name, or each one in order,
// makes of it to standard output. `encoded`: the default program, encoded. Exit code 0, or 2 with
// one line on standard error.
int run_print(int argc, const char* const* argv);

}  // namespace coordinator
