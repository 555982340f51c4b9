#include "tests/bench/search/search_graphs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/roll/roll.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/space/region_space.h"
#include "tests/paths/paths.h"

namespace bench {
namespace {

using coordinator::GeneKind;
using coordinator::Genome;
using coordinator::Lowering;
using coordinator::RegionSpace;
using coordinator::Site;

constexpr const char* kFixtures[] = {"mlp", "mlp_dynamic", "kv_step", "llama"};
constexpr const char* kShared[] = {"attention", "cnn",       "gpt2",   "bert",
                                   "vit",       "qwen3_moe", "gemma3", "welch_peaks"};

std::vector<std::string> fixed_set() {
  std::vector<std::string> files;
  for (const char* name : kFixtures) {
    files.push_back(common::cat(paths::fixtures(), "/models/", name, "/model.pt2"));
  }
  for (const char* name : kShared) {
    std::string file = common::cat(paths::shared(), "/models/", name, "/model.pt2");
    if (std::filesystem::exists(file)) files.push_back(std::move(file));
  }
  return files;
}

// Every contraction lowered one way; kInPlace: as the default has it.
Genome start(RegionSpace& space, Lowering lowering) {
  Genome genome;
  const auto& saturated = space.saturated();
  for (const Site& site : space.decode({}).sites) {
    if (site.name.kind != GeneKind::kChoice || lowering == Lowering::kInPlace) continue;
    for (int64_t value : site.values) {
      auto head = saturated.graph->head(static_cast<coordinator::NodeId>(value));
      if (saturated.heads->lowering(head) == lowering) genome.set(site.name, value);
    }
  }
  return genome;
}

double descend_from(RegionSpace& space, Genome genome, SimulatedDevice& device,
                    const std::vector<int64_t>& sizes) {
  double best = device.true_ns(space.decode(genome).program, sizes);
  for (bool improved = true; improved;) {
    improved = false;
    for (const Site& site : space.decode(genome).sites) {
      for (int64_t value : site.values) {
        Genome changed = genome;
        changed.set(site.name, value);
        double ns = device.true_ns(space.decode(changed).program, sizes);
        if (ns >= best * 0.9999) continue;
        best = ns;
        genome = std::move(changed);
        improved = true;
      }
    }
  }
  return best;
}

}  // namespace

common::Result<std::vector<SearchGraph>> search_graphs(const std::vector<std::string>& files) {
  std::vector<SearchGraph> graphs;
  for (const std::string& file : files.empty() ? fixed_set() : files) {
    LFARM_ASSIGN_OR_RETURN(clients::Model model, clients::load_model(file));
    std::filesystem::path path(file);
    std::string name = path.stem() == "model" ? path.parent_path().filename() : path.stem();
    graphs.push_back({std::move(name), std::move(model.graph)});
  }
  return graphs;
}

BestKnown::BestKnown(std::string file) : file_(std::move(file)) {
  std::ifstream in(file_);
  std::string name;
  double ns = 0;
  while (in >> name >> ns) times_[name] = ns;
}

double BestKnown::lower(const SearchGraph& graph, double ns) {
  auto [it, is_new] = times_.emplace(graph.name, ns);
  it->second = std::min(it->second, ns);
  return it->second;
}

common::Status BestKnown::save() const {
  std::ofstream out(file_);
  for (const auto& [name, ns] : times_) out << name << " " << std::llround(ns) << "\n";
  out.flush();
  if (!out.good()) return common::internal_error(common::cat("cannot write ", file_));
  return {};
}

double descend(const common::Graph& graph, SimulatedDevice& device) {
  common::SteadyClock clock;
  coordinator::Cut cut = coordinator::cut_into_regions(common::roll(graph));
  std::vector<int64_t> sizes = common::representative_sizes(graph.symbols);
  double total = 0;
  for (size_t r = 0; r < cut.regions.size(); ++r) {
    RegionSpace space(cut.regions[r].graph, clock);
    double best = descend_from(space, {}, device, sizes);
    for (Lowering lowering : {Lowering::kTile, Lowering::kGemm}) {
      Genome genome = start(space, lowering);
      if (genome.size() == 0) continue;
      best = std::min(best, descend_from(space, std::move(genome), device, sizes));
    }
    total += best * static_cast<double>(cut.executions[r]);
  }
  return total;
}

}  // namespace bench
