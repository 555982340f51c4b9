#include "coordinator/search/inspect.h"

#include <iostream>
#include <iterator>
#include <memory>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/roll/roll.h"
#include "common/plan/plan.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/cost/cost_model.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/layout_assignment.h"
#include "coordinator/search/partition/regions.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {
namespace {

constexpr int kCandidatesShown = 4;

struct Spaces {
  Spaces(const common::Graph& graph, common::Machine machine, Numerics numerics)
      : cut(cut_into_regions(common::roll(assign_layouts(graph, machine)))) {
    common::SteadyClock clock;
    for (const Region& region : cut.regions) {
      spaces.push_back(std::make_unique<RegionSpace>(region.graph, clock, numerics, machine));
    }
  }
  Cut cut;
  std::vector<std::unique_ptr<RegionSpace>> spaces;
};

std::string heading(const Spaces& all, size_t r) {
  return common::cat("# region ", r, ", runs ", all.cut.executions[r], "x\n");
}

}  // namespace

std::string print_egraphs(const common::Graph& graph, const common::Target& target,
                          Numerics numerics) {
  Spaces all(graph, common::machine_of(target), numerics);
  std::string out;
  for (size_t r = 0; r < all.spaces.size(); ++r) {
    const Saturated& s = all.spaces[r]->saturated();
    out += heading(all, r);
    out += common::cat("# ", stop_reason_name(s.report.stop), " after ", s.report.iterations,
                       " iterations: ", s.report.nodes, " e-nodes in ", s.report.classes,
                       " e-classes\n");
    for (const RuleReport& rule : s.report.rules) {
      if (rule.matches == 0) continue;
      out += common::cat("# rule ", rule.name, ": ", rule.matches, " matches, ", rule.applied,
                         " applied\n");
    }
    out += s.dump();
  }
  return out;
}

std::string print_candidates(const common::Graph& graph, const common::Target& target,
                             Numerics numerics) {
  Spaces all(graph, common::machine_of(target), numerics);
  KernelTimes times(nullptr, representative_sizes(graph.symbols), nullptr, target);
  std::string out;
  for (size_t r = 0; r < all.spaces.size(); ++r) {
    out += heading(all, r);
    auto search = RegionSearch::create(*all.spaces[r], times, 0, SearchStrategy::kModel);
    for (const FusionDecision& decision : search->fusion_decisions()) {
      out += common::cat("# fusion gate: ", print(decision), "\n");
    }
    for (int k = 0; k < kCandidatesShown; ++k) {
      auto candidate = search->propose();
      if (!candidate) break;
      out += common::cat("## candidate ", k, " ", candidate->fingerprint.short_hex(), ": ",
                         candidate->program->calls.size(), " calls of ",
                         candidate->program->kernels.size(), " kernels, predicted ",
                         static_cast<int64_t>(candidate->predicted_ns), " ns\n",
                         common::print(*candidate->program));
    }
  }
  return out;
}

common::Program default_program(const common::Graph& graph, const common::Target& target,
                                Numerics numerics) {
  Spaces all(graph, common::machine_of(target), numerics);
  std::vector<common::Program> programs;
  std::vector<const common::Program*> parts;
  for (const auto& space : all.spaces) programs.push_back(space->decode({}).program);
  for (const auto& program : programs) parts.push_back(&program);
  return assemble(all.cut, parts);
}

int run_print(int argc, const char* const* argv) {
  std::string_view stage, policy = common::kDefaultPolicy;
  common::Target target;
  for (int k = 2; k + 1 < argc; k += 2) {
    if (std::string_view(argv[k]) == "--stage") stage = argv[k + 1];
    if (std::string_view(argv[k]) == "--numerics") policy = argv[k + 1];
    if (std::string_view(argv[k]) == "--target") target.name = argv[k + 1];
  }
  if ((stage != "egraph" && stage != "candidates" && stage != "program") ||
      !common::is_policy(policy) || target.name.empty()) {
    std::cerr << "lfarm-coordinator: print takes --stage egraph|candidates|program, --target NAME "
                 "and --numerics strict|relaxed\n";
    return 2;
  }
  std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto graph = common::decode_graph(common::as_bytes(bytes));
  if (!graph.ok()) {
    std::cerr << "lfarm-coordinator: standard input holds no graph: " << graph.error().message
              << "\n";
    return 2;
  }
  Numerics numerics = numerics_of(policy);
  if (stage == "egraph") std::cout << print_egraphs(*graph, target, numerics);
  if (stage == "candidates") std::cout << print_candidates(*graph, target, numerics);
  if (stage == "program") {
    std::cout << common::as_text(common::encode_program(default_program(*graph, target, numerics)));
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}

}  // namespace coordinator
