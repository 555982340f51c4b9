#include "coordinator/search/passes/passes.h"

#include <algorithm>
#include <iostream>
#include <iterator>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/hlir/text.h"
#include "common/ir/llir/load_time.h"
#include "common/plan/policy.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/schedule/kernels/looped_kernel.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/partition/assemble.h"
#include "coordinator/search/partition/search_sizes.h"
#include "coordinator/search/strategy/region_search.h"

namespace coordinator {

using common::cat;

Compilation::Compilation(common::Graph graph, common::Target target, Numerics numerics)
    : graph_(std::move(graph)), target_(std::move(target)), numerics_(numerics) {}

const Partition& Compilation::partition() {
  if (!partition_) {
    partition_ =
        std::make_unique<Partition>(coordinator::partition(graph_, common::machine_of(target_)));
  }
  return *partition_;
}

std::vector<std::unique_ptr<RegionSpace>>& Compilation::spaces() {
  if (!spaces_.empty()) return spaces_;
  common::SteadyClock clock;
  for (const Region& region : partition().cut.regions) {
    spaces_.push_back(
        std::make_unique<RegionSpace>(region.graph, clock, numerics_, common::machine_of(target_)));
  }
  return spaces_;
}

common::Program default_program(Compilation& compilation) {
  std::vector<common::Program> programs;
  std::vector<const common::Program*> parts;
  for (const auto& space : compilation.spaces()) programs.push_back(space->decode({}).program);
  for (const auto& program : programs) parts.push_back(&program);
  return assemble(compilation.partition().cut, parts);
}

namespace {

constexpr int kCandidatesShown = 4;

std::string heading(Compilation& compilation, size_t r) {
  return cat("# region ", r, ", runs ", compilation.partition().cut.executions[r], "x\n");
}

std::string print_layouts(Compilation& compilation) {
  return common::print(compilation.partition().laid_out);
}
std::string print_rolled(Compilation& compilation) {
  return common::print(compilation.partition().rolled);
}

std::string print_regions(Compilation& compilation) {
  std::string out;
  const std::vector<Region>& regions = compilation.partition().cut.regions;
  for (size_t r = 0; r < regions.size(); ++r) {
    out += heading(compilation, r) + common::print(regions[r].graph);
  }
  return out;
}

// Each region's saturated e-graph: what was found, rule by rule, and every class.
std::string print_egraphs(Compilation& compilation) {
  std::string out;
  for (size_t r = 0; r < compilation.spaces().size(); ++r) {
    const Saturated& s = compilation.spaces()[r]->saturated();
    out += heading(compilation, r);
    out += cat("# ", stop_reason_name(s.report.stop), " after ", s.report.iterations,
               " iterations: ", s.report.nodes, " e-nodes in ", s.report.classes, " e-classes\n");
    for (const RuleReport& rule : s.report.rules) {
      if (rule.matches == 0) continue;
      out +=
          cat("# rule ", rule.name, ": ", rule.matches, " matches, ", rule.applied, " applied\n");
    }
    out += s.dump();
  }
  return out;
}

// What a run is predicted to take, and a line a kernel: its calls, those apart that run once, when
// weights are bound, and what the first of them is predicted to take.
std::string print_predictions(const common::Program& program,
                              const std::vector<common::WeightedSizes>& sizes,
                              const common::Target& target) {
  const common::DeviceTerms& terms = common::device_terms(target);
  auto predicted_ns = [&](const common::Call& call) {
    double ns = 0;
    for (const common::WeightedSizes& each : sizes) {
      ns += each.weight * common::predict_ns(program.kernels[static_cast<size_t>(call.kernel)],
                                             common::call_symbols(call, each.sizes), terms);
    }
    return ns;
  };
  struct Calls {
    int64_t in_runs = 0, at_load = 0;
    double first_ns = 0;
  };
  const std::vector<char> at_load = common::load_time_calls(program);
  std::vector<Calls> kernels(program.kernels.size());
  double run_ns = 0;
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const double ns = predicted_ns(program.calls[c]);
    Calls& calls = kernels[static_cast<size_t>(program.calls[c].kernel)];
    if (calls.in_runs + calls.at_load == 0) calls.first_ns = ns;
    ++(at_load[c] != 0 ? calls.at_load : calls.in_runs);
    if (at_load[c] == 0) run_ns += ns;
  }
  std::string out = cat("# a run is predicted to take ", static_cast<int64_t>(run_ns), " ns\n");
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Calls& calls = kernels[k];
    out += cat("# kernel ", k, " ", common::template_name(program.kernels[k].form), ": ",
               calls.in_runs, " calls");
    if (calls.at_load != 0) out += cat(" and ", calls.at_load, " when weights are bound");
    out += cat(", ", static_cast<int64_t>(calls.first_ns), " ns predicted\n");
  }
  return out;
}

// Each region's default program and the first few alternatives, with predicted times.
std::string print_candidates(Compilation& compilation) {
  const auto sizes = search_sizes(compilation.graph(), compilation.target());
  KernelTimes times(nullptr, sizes, nullptr, compilation.target());
  std::string out;
  if (!compilation.graph().symbols.empty())
    out += cat("# priced at ", common::text_of(sizes), "\n");
  for (size_t r = 0; r < compilation.spaces().size(); ++r) {
    out += heading(compilation, r);
    auto search = RegionSearch::create(*compilation.spaces()[r], times, 0, SearchStrategy::kModel);
    for (const FusionDecision& decision : search->fusion_decisions()) {
      out += cat("# fusion gate: ", print(decision), "\n");
    }
    for (int k = 0; k < kCandidatesShown; ++k) {
      auto candidate = search->propose();
      if (!candidate) break;
      out += cat("## candidate ", k, " ", candidate->fingerprint.short_hex(), ": ",
                 candidate->program->calls.size(), " calls of ", candidate->program->kernels.size(),
                 " kernels, predicted ", static_cast<int64_t>(candidate->predicted_ns), " ns\n",
                 print_predictions(*candidate->program, sizes, compilation.target()),
                 common::print(*candidate->program));
    }
  }
  return out;
}

std::string print_program(Compilation& compilation) {
  return common::print(default_program(compilation));
}

common::NestMachine nest_machine(const Compilation& compilation) {
  return {common::machine_of(compilation.target()), compilation.target().name, {}};
}

// As workers get it.
common::Program program_with_nests(Compilation& compilation) {
  common::Program program = default_program(compilation);
  common::add_nests(program, nest_machine(compilation));
  return program;
}

std::string print_nests(Compilation& compilation) {
  common::Program program = program_with_nests(compilation);
  std::string out = print_predictions(
      program, search_sizes(compilation.graph(), compilation.target()), compilation.target());
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const common::Kernel& kernel = program.kernels[k];
    out += cat("# kernel ", k, " ", common::template_name(kernel.form), "\n");
    if (kernel.tiling) out += cat("tiling ", common::print(*kernel.tiling), "\n");
    auto looped = common::looped_kernel(kernel, nest_machine(compilation));
    if (looped.ok()) out += cat("  ", looped->text, "\n");
    if (!kernel.nest) continue;
    out += cat(common::print(*kernel.nest), "of\n",
               common::print(common::nest_body(kernel.body, *kernel.nest)));
  }
  return out;
}

constexpr Pass kPasses[] = {
    {"layouts", "the graph with its images' axes in the order that the target likes",
     print_layouts},
    {"roll", "the same with repeated layers as loops", print_rolled},
    {"regions", "the parts between loops, each distinct one once", print_regions},
    {"egraph", "each region's equal programs, and the rules that found them", print_egraphs},
    {"candidates", "the programs that each region's search begins with", print_candidates},
    {"program", "the whole graph's kernels and calls before anything is measured", print_program},
    {"nests", "each kernel's tiling, and the loops of what its template does not compute by itself",
     print_nests},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

namespace {

struct PrintRequest {
  std::string_view stage, policy = common::kDefaultPolicy;
  common::Target target;
};

PrintRequest parse(int argc, const char* const* argv) {
  PrintRequest request;
  for (int k = 2; k + 1 < argc; k += 2) {
    std::string_view name = argv[k];
    if (name == "--stage") request.stage = argv[k + 1];
    if (name == "--numerics") request.policy = argv[k + 1];
    if (name == "--target") request.target.name = argv[k + 1];
  }
  return request;
}

// False when no pass has the name.
bool write(std::string_view stage, Compilation& compilation, std::ostream& out) {
  if (stage == "encoded") {
    out << common::as_text(common::encode_program(program_with_nests(compilation)));
    return true;
  }
  bool is_all = stage == "all", is_known = is_all;
  for (const Pass& pass : passes()) {
    if (!is_all && pass.name != stage) continue;
    is_known = true;
    if (is_all) out << "=== " << pass.name << ": " << pass.makes << "\n";
    out << pass.print(compilation);
  }
  return is_known;
}

}  // namespace

int run_print(int argc, const char* const* argv) {
  PrintRequest request = parse(argc, argv);
  std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  auto graph = common::decode_graph(common::as_bytes(bytes));
  if (!graph.ok()) {
    std::cerr << "lfarm-coordinator: standard input holds no graph: " << graph.error().message
              << "\n";
    return 2;
  }
  bool is_asked = common::parse_plan_policy(request.policy).ok() && !request.target.name.empty();
  Compilation compilation(*graph, request.target, numerics_of(request.policy));
  if (!is_asked || !write(request.stage, compilation, std::cout)) {
    std::string names;
    for (const Pass& pass : passes()) names += cat(pass.name, "|");
    std::cerr << "lfarm-coordinator: print takes --stage " << names
              << "all|encoded, --target NAME and --numerics strict|relaxed\n";
    return 2;
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}

}  // namespace coordinator
