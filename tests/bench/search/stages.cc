// stages MODEL.pt2...: how long a model takes from its file to its saturated regions, and what
// comes out.
#include <cmath>
#include <cstdio>
#include <memory>

#include "clients/pt2/translate.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "tests/bench/bench.h"

namespace bench {
namespace {

class Stopwatch {
 public:
  double lap() {
    int64_t now = clock_.now_ns();
    double seconds = static_cast<double>(now - start_) * 1e-9;
    start_ = now;
    return seconds;
  }

 private:
  common::SteadyClock clock_;
  int64_t start_ = clock_.now_ns();
};

size_t nodes_with_bodies(const common::Graph& graph) {
  size_t count = graph.nodes.size();
  for (const common::Node& node : graph.nodes) {
    if (node.op == common::Op::kLoop) {
      count += nodes_with_bodies(*common::attr<common::LoopAttr>(node).body);
    }
  }
  return count;
}

int measure(const std::string& path) {
  Stopwatch watch;
  auto model = clients::load_model(path);
  if (!model.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", model.error().message.c_str());
    return model.error().code == common::Code::kUnsupported ? 3 : 2;
  }
  double translate_s = watch.lap();
  bool valid = common::verify(model->graph).ok();
  double verify_s = watch.lap();
  common::Digest hash = common::graph_hash(model->graph);
  double hash_s = watch.lap();
  common::Graph rolled = common::roll(model->graph);
  double roll_s = watch.lap();
  coordinator::Cut cut = coordinator::cut_into_regions(rolled);
  double cut_s = watch.lap();
  common::SteadyClock clock;
  uint64_t enodes = 0;
  double choices = 0;
  for (const coordinator::Region& region : cut.regions) {
    coordinator::RegionSpace space(region.graph, clock);
    enodes += space.saturated().report.nodes;
    for (const coordinator::Site& site : space.decode({}).sites) {
      if (site.name.kind == coordinator::GeneKind::kChoice) {
        choices += static_cast<double>(site.values.size());
      }
    }
  }
  double saturate_s = watch.lap();
  std::printf(
      "{\"model\":\"%s\",\"graph\":\"%s\",\"valid\":%s,\"nodes\":%zu,\"rolled_nodes\":%zu,"
      "\"regions\":%zu,\"translate_s\":%.4f,\"verify_s\":%.4f,\"hash_s\":%.4f,\"roll_s\":%.4f,"
      "\"cut_s\":%.4f,\"saturate_s\":%.4f,\"enodes\":%llu,\"choices\":%.0f,\"peak_mb\":%.1f}\n",
      path.c_str(), hash.hex().c_str(), valid ? "true" : "false", model->graph.nodes.size(),
      nodes_with_bodies(rolled), cut.regions.size(), translate_s, verify_s, hash_s, roll_s, cut_s,
      saturate_s, static_cast<unsigned long long>(enodes), choices, peak_mb());
  return 0;
}

}  // namespace

int run_stages(const std::vector<std::string>& arguments) {
  int code = arguments.empty() ? 2 : 0;
  for (const std::string& path : arguments) code = std::max(code, measure(path));
  return code;
}

}  // namespace bench
