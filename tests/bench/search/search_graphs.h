// The graphs that searches are compared on, and the best program known for each on a simulated
// device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/ir/hlir/graph.h"
#include "tests/bench/search/simulated_device.h"

namespace bench {

struct SearchGraph {
  std::string name;
  common::Graph graph;
};

// A strategy under the name that the benchmark has for it.
struct NamedSearch {
  std::string name;
  coordinator::SearchOptions options;
  // On real devices: begins with what the searches of the graphs before it taught.
  bool has_priors = false;
};

// The given files, or else the fixed set: the fixtures, and what there is of the shared models.
common::Result<std::vector<SearchGraph>> search_graphs(const std::vector<std::string>& files);

// Times of the best programs that any search ever found on the simulated device, by graph, kept in
// a file beside the benchmark: regret is measured against the same times whatever a run tries.
class BestKnown {
 public:
  explicit BestKnown(std::string file);
  // Of the recorded time and the one given the smaller, which is remembered.
  double lower(const SearchGraph& graph, double ns);
  bool has(const SearchGraph& graph) const { return times_.count(graph.name) != 0; }
  // Writes what is remembered.
  common::Status save() const;

 private:
  std::string file_;
  std::map<std::string, double> times_;
};

// The time of a program found by descent over single genes with true times, from several starts:
// what a search without noise and without a bound on candidates would find.
double descend(const common::Graph& graph, SimulatedDevice& device);

// Print one JSON object a line.
void run_search_micro(const std::vector<SearchGraph>& graphs);
// Seeds are searches per graph and budget; noise as SimulatedDevice has it.
int run_search_sweep(const std::vector<SearchGraph>& graphs, int64_t seeds, double noise);
struct CpuSearch {
  int64_t budget = 500;
  std::string kept;      // a file of measurements that are not to be made again; may be empty
  bool kernels = false;  // a line for each kernel too: what was predicted and what it took
};
int run_search_cpu(const std::vector<SearchGraph>& graphs, const std::vector<NamedSearch>& searches,
                   const CpuSearch& how);

}  // namespace bench
