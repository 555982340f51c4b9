// gpu-static GRAPH.pt2 [--target T] [--machine NAME] [--size N] [--sizes RANGES] [--budget N |
// --plain]
// [--seed N] [--dump DIR] [--no-access] [--measure] [--markdown] [--save FILE | --program FILE]:
// what a plan's kernels cost on a GPU, told from the plan and the machine code, and with --measure
// what they take on this machine's. --save keeps the program that was found, so that another
// machine need not search for it: --program. Symbols are N, as near as their ranges allow, instead
// of the sizes that are verified first, and the plan is one for sizes above N / 2 up to N. RANGES,
// as `lfarm submit --sizes` takes them, say which sizes the plan is for; "all" is every size of the
// model.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "clients/pt2/translate.h"
#include "clients/runtime/model/size_ranges.h"
#include "clients/score/model_work.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/roll/roll.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/passes/passes.h"
#include "coordinator/search/records/rank_correlation.h"
#include "tests/bench/bench.h"
#include "tests/bench/gpu_static/measured_calls.h"
#include "tests/bench/gpu_static/plan_traffic.h"
#include "tests/bench/gpu_static/predicted_device.h"
#include "tests/bench/gpu_static/schedule_spread.h"
#include "tests/bench/gpu_static/static_kernel.h"
#include "worker/codegen/cuda/cuda.h"

namespace bench {
namespace {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

struct StaticOptions {
  std::string model;
  std::string target = "cuda-sm_90a";
  std::string machine;  // empty: the target's typical one
  int64_t size = 0;     // of each symbol; 0: those that are verified first
  std::string sizes;    // that the plan is for
  int64_t budget = 200;
  uint64_t seed = PredictedSearch{}.seed;
  bool plain = false;
  bool has_accesses = true;
  bool measures = false;
  bool markdown = false;
  std::string dump;
  std::string save, program;  // files
};

// A kernel and its calls in one run.
struct KernelUse {
  StaticKernel kernel;
  double search_ns = 0;  // that the search takes a call for
  ScheduleSpread spread;
  std::vector<size_t> calls;  // among the program's
  // Of all calls.
  double predicted_us = 0, search_us = 0, dram_bytes = 0, least_bytes = 0;
  double measured_us = 0;  // 0: not measured

  double call_count() const { return static_cast<double>(calls.size()); }
};

struct AnalysedProgram {
  common::Program program;
  std::vector<KernelUse> uses;  // those that take longest first
  double us = 0;
};

double rounded(double value) { return std::round(value * 1000) / 1000; }

Json kernel_line(const KernelUse& use) {
  const StaticKernel& k = use.kernel;
  Json line{{"kernel", k.name},
            {"form", common::template_name(k.form)},
            {"calls", use.calls.size()},
            {"operations", k.operations * use.call_count()},
            {"dram_bytes", use.dram_bytes},
            {"dram_bytes_least", use.least_bytes}};
  if (k.code) {
    double bytes = std::max(1.0, k.asked_bytes);
    line["blocks"] = k.facts.blocks;
    line["waves"] = rounded(k.waves);
    line["load_bytes_lane"] = k.code->load_bytes;
    line["store_bytes_lane"] = k.code->store_bytes;
    line["in_flight_bytes"] = k.code->in_flight_bytes;
    line["in_flight_bytes_sm"] = std::round(k.time.in_flight_bytes_sm);
    line["instructions_per_byte"] = rounded(k.facts.thread_instructions / bytes);
    line["sectors_ratio"] = k.accesses && k.accesses->sectors_ratio > 0
                                ? Json(rounded(k.accesses->sectors_ratio))
                                : Json(nullptr);
    line["shared_ratio"] = k.accesses && k.accesses->shared_ratio > 0
                               ? Json(rounded(k.accesses->shared_ratio))
                               : Json(nullptr);
    if (!k.accesses_problem.empty()) line["accesses_problem"] = k.accesses_problem;
    line["barriers_step"] = k.code->barriers_step;
    line["tensor_share"] = rounded(k.code->tensor_instructions / k.code->instructions);
    line["epilogue_share"] = rounded(k.code->epilogue_share);
    line["registers"] = k.code->registers;
    line["spill_bytes"] = k.code->local_bytes;
    line["divisions_in_loops"] = k.code->divisions_in_loops;
    line["warp_clocks"] = std::round(k.code->warp_clocks);
    line["wave_efficiency"] = rounded(k.time.wave_efficiency);
  }
  if (use.spread.schedules > 0) {
    line["schedules"] = use.spread.schedules;
    line["spread"] = rounded(use.spread.ratio);
  }
  // Of one launch, what each part of the device takes.
  const common::GpuKernelTime& t = k.time;
  line["bounds_us"] = {
      {"dram", rounded(t.dram_ns * 1e-3)},     {"l2", rounded(t.l2_ns * 1e-3)},
      {"issue", rounded(t.issue_ns * 1e-3)},   {"tensor", rounded(t.tensor_ns * 1e-3)},
      {"shared", rounded(t.shared_ns * 1e-3)}, {"latency", rounded(t.latency_ns * 1e-3)}};
  line["predicted_us"] = rounded(use.predicted_us);
  line["search_us"] = rounded(use.search_us);
  const double floor_us = k.floor_ns * 1e-3 * use.call_count();
  line["roofline"] = rounded(floor_us / use.predicted_us);
  if (use.measured_us > 0) {
    line["measured_us"] = rounded(use.measured_us);
    line["measured_roofline"] = rounded(floor_us / use.measured_us);
  }
  return line;
}

void print_markdown(const std::vector<KernelUse>& uses, const Json& summary) {
  std::printf(
      "| kernel | form | calls | MB | load | store | in flight, KB/SM | instr/B | registers "
      "| us | search, us | measured, us | roofline |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (const KernelUse& use : uses) {
    Json line = kernel_line(use);
    auto number = [&](const char* name) {
      return line.contains(name) && !line[name].is_null() ? line[name].dump() : std::string("-");
    };
    std::printf(
        "| %s | %s | %zu | %.3f | %s | %s | %.1f | %s | %s | %.1f | %.1f | %s | %s |\n",
        use.kernel.name.c_str(), std::string(common::template_name(use.kernel.form)).c_str(),
        use.calls.size(), use.dram_bytes * 1e-6, number("load_bytes_lane").c_str(),
        number("store_bytes_lane").c_str(), use.kernel.time.in_flight_bytes_sm / 1024,
        number("instructions_per_byte").c_str(), number("registers").c_str(), use.predicted_us,
        use.search_us, number("measured_us").c_str(), number("roofline").c_str());
  }
  std::printf("\n%s\n", summary.dump().c_str());
}

common::Status dump(const std::string& folder, const std::vector<KernelUse>& uses) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  for (const KernelUse& use : uses) {
    if (!use.kernel.code) continue;
    std::string path = cat(folder, "/", use.kernel.name);
    LFARM_RETURN_IF_ERROR(
        common::write_file_atomic(path + ".cu", common::as_bytes(use.kernel.text)));
    LFARM_RETURN_IF_ERROR(common::write_file_atomic(path + ".cubin", use.kernel.cubin));
  }
  return {};
}

// The program that a search ends with whose device is the cost model, and the other finalists of
// that search; or the one it starts from.
Result<std::vector<common::Program>> find_programs(const common::Graph& graph,
                                                   const StaticOptions& options,
                                                   const common::GpuMachine& machine) {
  common::Target target{options.target};
  if (!options.program.empty()) {
    LFARM_ASSIGN_OR_RETURN(std::string bytes, common::read_file(options.program));
    LFARM_ASSIGN_OR_RETURN(common::Program program,
                           common::decode_program(common::as_bytes(bytes)));
    return std::vector<common::Program>{std::move(program)};
  }
  if (options.plain) {
    coordinator::Compilation compilation(graph, target, coordinator::Numerics::kStrict);
    return std::vector<common::Program>{coordinator::default_program(compilation)};
  }
  std::vector<common::Program> finalists;
  LFARM_ASSIGN_OR_RETURN(
      common::Program best,
      predicted_search(graph, target, {options.budget, options.seed, std::string(machine.name)},
                       [&](const coordinator::CandidateTask& task) {
                         if (task.region < 0 && task.payload.kind == common::TaskKind::kFinalist) {
                           finalists.push_back(task.payload.program);
                         }
                         return common::Status{};
                       }));
  std::vector<common::Program> programs{std::move(best)};
  std::set<common::Digest> known{common::program_fingerprint(programs[0])};
  for (common::Program& finalist : finalists) {
    if (known.insert(common::program_fingerprint(finalist)).second) {
      programs.push_back(std::move(finalist));
    }
  }
  return programs;
}

// Kernels of programs that were analysed, by their fingerprint, symbols and what a call moves.
using KnownKernels =
    std::map<std::tuple<common::Digest, std::vector<int64_t>, double, double>, KernelUse>;

// What a call takes that follows one of `before`; null: none does.
double ns_after(const StaticKernel* before, const StaticKernel& kernel, const std::string& target,
                const common::GpuMachine& machine) {
  if (before == nullptr || !common::launches_overlap(target)) return kernel.predicted_ns;
  common::GpuKernelTime time = common::gpu_kernel_time_after(before->facts, kernel.facts, machine);
  return time.total_ns + time.launch_ns;
}

Result<AnalysedProgram> analyse(common::Program program, const StaticOptions& options,
                                const std::vector<int64_t>& sizes,
                                const common::GpuMachine& machine, KnownKernels& known) {
  common::Target target{options.target};
  common::add_nests(program, {common::machine_of(target), target.name, std::string(machine.name)});
  LFARM_ASSIGN_OR_RETURN(auto nvrtc, common::Nvrtc::open());
  worker::CudaCodeGenerator generator(target);
  std::string arch = options.target.substr(options.target.find("sm_"));
  StaticTools tools{generator, static_compiler(nvrtc, arch), machine, options.has_accesses};
  PlanTraffic traffic = plan_traffic(program, sizes, machine);
  std::map<std::pair<int, double>, KernelUse> uses;  // by kernel and what a call moves
  const StaticKernel* before = nullptr;
  for (size_t c = 0; c < program.calls.size(); ++c) {
    if (traffic.at_load[c] != 0) continue;
    const common::Call& call = program.calls[c];
    auto [it, is_new] = uses.try_emplace({call.kernel, traffic.calls[c].bytes});
    KernelUse& use = it->second;
    if (is_new) {
      const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
      std::vector<int64_t> symbols = common::call_symbols(call, sizes);
      auto [found, is_unknown] =
          known.try_emplace({common::kernel_fingerprint(kernel), symbols, traffic.calls[c].bytes,
                             traffic.calls[c].written});
      if (is_unknown) {
        KernelUse& made = found->second;
        LFARM_ASSIGN_OR_RETURN(made.kernel,
                               static_kernel(kernel, symbols, traffic.calls[c], tools));
        made.search_ns =
            common::predict_ns(kernel, symbols, common::device_terms(target, machine.name));
        made.spread = schedule_spread(kernel, common::machine_of(target), machine);
      }
      use = found->second;
    }
    use.calls.push_back(c);
    use.predicted_us += ns_after(before, use.kernel, options.target, machine) * 1e-3;
    before = &use.kernel;
    use.search_us += use.search_ns * 1e-3;
    use.dram_bytes += traffic.calls[c].bytes;
    use.least_bytes += traffic.calls[c].least;
  }
  AnalysedProgram result{std::move(program), {}, 0};
  for (auto& [key, use] : uses) {
    result.us += use.predicted_us;
    result.uses.push_back(std::move(use));
  }
  std::sort(result.uses.begin(), result.uses.end(),
            [](const KernelUse& a, const KernelUse& b) { return a.predicted_us > b.predicted_us; });
  return result;
}

// Adds what the GPU takes to the kernels and to the summary.
common::Status add_measurements(const common::Graph& graph, const std::vector<int64_t>& sizes,
                                const StaticOptions& options, AnalysedProgram& analysed,
                                Json& summary) {
  LFARM_ASSIGN_OR_RETURN(auto plans, open_gpu({options.target}));
  common::MeasureOptions how;
  how.repetitions = 50;
  how.time_max_ms = 4000;
  LFARM_ASSIGN_OR_RETURN(MeasuredCalls measured,
                         measure_calls(*plans, graph, analysed.program, sizes, how));
  double calls_us = 0;
  std::vector<double> predicted, taken;  // of one call of each kernel
  for (KernelUse& use : analysed.uses) {
    for (size_t call : use.calls) use.measured_us += measured.call_us[call];
    calls_us += use.measured_us;
    predicted.push_back(use.predicted_us / use.call_count());
    taken.push_back(use.measured_us / use.call_count());
  }
  summary["device"] = measured.device;
  summary["measured_us"] = rounded(measured.total_us);
  summary["measured_spread_us"] = rounded(measured.spread_us);
  summary["measured_calls_us"] = rounded(calls_us);
  summary["measured_roofline"] = rounded(summary["floor_us"].get<double>() / measured.total_us);
  summary["rank_correlation"] = rounded(coordinator::rank_correlation(predicted, taken));
  summary["prepare_us"] = rounded(measured.prepare_us);
  return {};
}

Json summary_of(const std::vector<KernelUse>& uses, const StaticOptions& options,
                const common::Graph& graph, const std::vector<int64_t>& sizes, int64_t layers,
                const common::GpuMachine& machine) {
  int64_t launches = 0;
  double us = 0, search_us = 0, bytes = 0;
  for (const KernelUse& use : uses) {
    launches += static_cast<int64_t>(use.calls.size());
    us += use.predicted_us;
    search_us += use.search_us;
    bytes += use.dram_bytes;
  }
  clients::ModelWork work = clients::work_of(graph, sizes);
  double floor_us = std::max(work.bytes / machine.dram_bytes_per_ns,
                             work.operations / machine.half_tensor_per_ns) *
                    1e-3;
  Json line{{"summary", options.model}, {"machine", machine.name}, {"launches", launches}};
  line["launches_layer"] =
      layers > 0 ? Json(rounded(static_cast<double>(launches) / static_cast<double>(layers)))
                 : Json(nullptr);
  line["dram_bytes"] = bytes;
  line["dram_bytes_least"] = work.bytes;
  line["predicted_us"] = rounded(us);
  line["search_us"] = rounded(search_us);
  line["floor_us"] = rounded(floor_us);
  line["roofline"] = rounded(floor_us / us);
  return line;
}

// Of the rolled graph's outermost loops the steps of the longest: a model's layers; 0: no loops.
int64_t layers_of(const common::Graph& graph) {
  int64_t layers = 0;
  for (const common::Node& node : common::roll(graph).nodes) {
    if (node.op != common::Op::kLoop) continue;
    layers = std::max(layers, common::attr<common::LoopAttr>(node).trip_count);
  }
  return layers;
}

int fail(const common::Error& error) {
  std::fprintf(stderr, "lfarm-bench: %s\n", error.message.c_str());
  return error.code == common::Code::kUnsupported ? 3 : 1;
}

// The model's graph for the sizes that the plan is for.
Result<common::Graph> graph_for(const common::Graph& graph, const StaticOptions& options) {
  if (options.sizes == "all") return graph;
  if (!options.sizes.empty()) {
    LFARM_ASSIGN_OR_RETURN(auto ranges, clients::parse_size_ranges(options.sizes));
    if (ranges.size() != 1) return common::invalid_input("--sizes takes the ranges of one plan");
    return clients::for_sizes(graph, ranges[0]);
  }
  clients::SizeRanges ranges;
  for (size_t k = 0; options.size > 0 && k < graph.symbols.size(); ++k) {
    const common::SymbolRange& whole = graph.symbols[k];
    ranges.push_back({static_cast<int>(k),
                      {common::size_within(whole, options.size / 2 + 1),
                       common::size_within(whole, options.size)}});
  }
  return clients::for_sizes(graph, ranges);
}

int report(const StaticOptions& options) {
  const common::GpuMachine* machine = options.machine.empty()
                                          ? &common::gpu_machine_of_target(options.target)
                                          : common::find_gpu_machine(options.machine);
  if (machine == nullptr) {
    std::fprintf(stderr, "lfarm-bench: no GPU is called %s; there are", options.machine.c_str());
    for (const auto& known : common::gpu_machines()) {
      std::fprintf(stderr, " \"%s\"", std::string(known.name).c_str());
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  auto model = clients::load_model(options.model);
  if (!model.ok()) return fail(model.error());
  auto graph = graph_for(model->graph, options);
  if (!graph.ok()) return fail(graph.error());
  auto programs = find_programs(*graph, options, *machine);
  if (!programs.ok()) return fail(programs.error());
  std::vector<int64_t> sizes = common::representative_sizes(graph->symbols);
  for (size_t k = 0; options.size > 0 && k < sizes.size(); ++k) {
    sizes[k] = common::size_within(graph->symbols[k], options.size);
  }
  // The search ranks candidates by its own model; machine code decides among the finalists.
  KnownKernels known;
  std::optional<AnalysedProgram> best;
  double first_us = 0;
  const size_t finalists = programs->size();
  for (common::Program& program : *programs) {
    auto analysed = analyse(std::move(program), options, sizes, *machine, known);
    if (!analysed.ok()) return fail(analysed.error());
    if (!best) first_us = analysed->us;
    if (!best || analysed->us < best->us) best = std::move(*analysed);
  }
  Json summary = summary_of(best->uses, options, *graph, sizes, layers_of(*graph), *machine);
  summary["finalists"] = finalists;
  summary["first_us"] = rounded(first_us);
  if (!options.save.empty()) {
    common::Status saved =
        common::write_file_atomic(options.save, common::encode_program(best->program));
    if (!saved.ok()) return fail(saved.error());
  }
  if (options.measures) {
    common::Status measured = add_measurements(*graph, sizes, options, *best, summary);
    if (!measured.ok()) return fail(measured.error());
  }
  if (options.markdown) {
    print_markdown(best->uses, summary);
  } else {
    for (const KernelUse& use : best->uses) std::printf("%s\n", kernel_line(use).dump().c_str());
    std::printf("%s\n", summary.dump().c_str());
  }
  if (options.dump.empty()) return 0;
  common::Status dumped = dump(options.dump, best->uses);
  return dumped.ok() ? 0 : fail(dumped.error());
}

std::optional<StaticOptions> parse(const std::vector<std::string>& arguments) {
  StaticOptions options;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const std::string& name = arguments[k];
    if (name == "--plain") {
      options.plain = true;
      continue;
    }
    if (name == "--no-access") {
      options.has_accesses = false;
      continue;
    }
    if (name == "--measure") {
      options.measures = true;
      continue;
    }
    if (name == "--markdown") {
      options.markdown = true;
      continue;
    }
    if (!name.starts_with("--")) {
      if (!options.model.empty()) return std::nullopt;
      options.model = name;
      continue;
    }
    if (++k == arguments.size()) return std::nullopt;
    if (name == "--target") {
      options.target = arguments[k];
    } else if (name == "--machine") {
      options.machine = arguments[k];
    } else if (name == "--size") {
      options.size = std::strtol(arguments[k].c_str(), nullptr, 10);
      if (options.size < 1) return std::nullopt;
    } else if (name == "--sizes") {
      options.sizes = arguments[k];
    } else if (name == "--budget") {
      options.budget = std::strtol(arguments[k].c_str(), nullptr, 10);
    } else if (name == "--seed") {
      options.seed = std::strtoull(arguments[k].c_str(), nullptr, 10);
    } else if (name == "--dump") {
      options.dump = arguments[k];
    } else if (name == "--save") {
      options.save = arguments[k];
    } else if (name == "--program") {
      options.program = arguments[k];
    } else {
      return std::nullopt;
    }
  }
  bool is_gpu = options.target.find("sm_") != std::string::npos;
  if (options.model.empty() || options.budget < 1 || !is_gpu) return std::nullopt;
  return options;
}

}  // namespace

int run_gpu_static(const std::vector<std::string>& arguments) {
  auto options = parse(arguments);
  if (!options) {
    std::fprintf(stderr,
                 "usage: lfarm-bench gpu-static GRAPH.pt2 [--target cuda-sm_NN] [--machine NAME] "
                 "[--size N] [--sizes RANGES] [--budget N | --plain] [--seed N] [--no-access] "
                 "[--measure] [--dump DIR] [--markdown] [--save FILE | --program FILE]\n");
    return 2;
  }
  return report(*options);
}

}  // namespace bench
