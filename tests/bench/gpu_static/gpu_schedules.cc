// gpu-schedules PROGRAM [--target T] [--size N] [--measure | --measured FILE]: what schedules of a
// program's kernels are predicted to take and what they take on this machine's GPU, one JSON line
// each. PROGRAM is what `gpu-static --save` kept, --measured an earlier run's lines: predictions
// are compared with them where there is no GPU. A line for each kernel says how well they agree.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/body_traffic.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/gpu_loops.h"
#include "common/schedule/gpu_nest.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "common/schedule/reductions/independent_reductions.h"
#include "common/wire/ir_codec.h"
#include "coordinator/search/records/rank_correlation.h"
#include "tests/bench/bench.h"
#include "tests/bench/gpu_static/measured_calls.h"
#include "tests/bench/gpu_verify/kernel_programs.h"
#include "worker/codegen/cuda/cuda.h"

namespace bench {
namespace {

using common::cat;
using common::Result;
using Json = nlohmann::ordered_json;

struct ScheduleOptions {
  std::string program;
  std::string target = "cuda-sm_90a";
  int64_t size = 0;
  bool measures = false;
  std::string measured;  // lines of an earlier run
};

// One way to compute a kernel: its schedule, and what of the nest is not as the schedule gives it.
struct Variant {
  std::string name;
  common::Kernel kernel;
};

struct TriedSchedule {
  std::string name;
  double predicted_us = 0;
  double measured_us = 0;                       // 0: not measured
  std::optional<common::GpuKernelFacts> facts;  // of the nest, where it is the schedule's
};

struct TriedKernel {
  int kernel = 0;  // of the program
  std::vector<TriedSchedule> schedules;
};

std::string text_of(const common::Schedule& schedule) {
  std::string text;
  for (const common::ScheduleParameter& p : schedule) {
    text += cat(text.empty() ? "" : " ", p.name, "=", p.value);
  }
  return text;
}

common::Schedule with(common::Schedule schedule, std::string_view name, int64_t value) {
  std::erase_if(schedule, [&](const auto& p) { return p.name == name; });
  schedule.push_back({std::string(name), value});
  std::ranges::sort(schedule, {}, &common::ScheduleParameter::name);
  return schedule;
}

// The default and the program's own, each with one or two parameters changed.
std::vector<common::Schedule> schedules_of(const common::Kernel& kernel, common::Machine machine) {
  std::vector<common::Schedule> found{kernel.schedule, {}};
  for (int changes = 0; changes < 2; ++changes) {
    const std::vector<common::Schedule> starts = found;
    for (const common::Schedule& start : starts) {
      for (const common::ScheduleChoice& choice : common::schedule_parameters(kernel.form)) {
        if (!choice.is_on(machine)) continue;
        for (int64_t value : choice.values) found.push_back(with(start, choice.name, value));
      }
    }
  }
  return found;
}

// Those that give code, one for each nest or tiling, at most this many: all of one change, then
// some of two.
constexpr size_t kSchedulesMax = 40;
constexpr size_t kChangedMax = 12;  // of which what the nest decides is changed, too
// Of all results together, which a run brings to the host.
constexpr double kResultBytesMax = double{1 << 30} * 8;

// What the search for nests decides without a parameter.
std::vector<Variant> nest_changes(const Variant& start) {
  std::vector<Variant> changed;
  if (!start.kernel.nest || start.kernel.nest->threads.threads == 1) return changed;
  auto change = [&](std::string_view what) -> common::LoopNest& {
    changed.push_back({cat(start.name, start.name.empty() ? "" : " ", what), start.kernel});
    return *changed.back().kernel.nest;
  };
  const common::LoopNest& nest = *start.kernel.nest;
  change(nest.threads.ahead ? "late" : "ahead").threads.ahead = !nest.threads.ahead;
  if (nest.prefetch) {
    change("unprefetched").prefetch.reset();
    change("half prefetched").prefetch->bytes =
        std::max(common::kCacheLine, nest.prefetch->bytes / 256 * 128);
  }
  const common::Graph body = common::nest_body(start.kernel.body, nest);
  common::GpuLoops loops(body, nest);
  if (!loops.run().ok()) return changed;
  auto fused = common::independent_reductions(body, loops.emitter().reductions());
  if (fused.empty()) return changed;
  for (int64_t rows = nest.threads.rows; rows >= 1; rows /= 2) {
    common::LoopNest& made = change(cat("fused ", rows));
    made.reductions.fused = fused;
    made.threads.rows = rows;
    made.prefetch.reset();
  }
  return changed;
}

std::vector<Variant> variants_of(const common::Kernel& kernel, const common::Target& target,
                                 const worker::CodeGenerator& generator) {
  std::vector<Variant> variants;
  std::set<std::string> known;
  for (const common::Schedule& schedule : schedules_of(kernel, common::machine_of(target))) {
    if (variants.size() == kSchedulesMax) break;
    common::Kernel variant{kernel.form, schedule, kernel.body, {}};
    if (!common::add_nest(variant, {common::machine_of(target), target.name, {}}).ok()) continue;
    std::string code;
    if (variant.nest) code += print(*variant.nest);
    if (variant.tiling) code += print(*variant.tiling);
    if (code.empty()) code = text_of(schedule);
    if (!known.insert(code).second || !generator.generate(variant).ok()) continue;
    variants.push_back({text_of(schedule), std::move(variant)});
  }
  for (size_t k = 0, made = variants.size(); k < made && k < kChangedMax; ++k) {
    for (Variant& changed : nest_changes(variants[k])) {
      // A nest says nothing that makes no difference.
      const common::Graph body = common::nest_body(kernel.body, *changed.kernel.nest);
      common::GpuLoops loops(body, *changed.kernel.nest);
      if (!loops.run().ok()) continue;
      changed.kernel.nest = loops.used();
      if (!known.insert(print(*changed.kernel.nest)).second) continue;
      if (generator.generate(changed.kernel).ok()) variants.push_back(std::move(changed));
    }
  }
  return variants;
}

// A program that calls each of the kernels on the same inputs.
common::Program program_of_all(const KernelProgram& alone, const std::vector<Variant>& variants,
                               common::Graph& graph) {
  common::Program all = alone.program;
  const common::Call first = all.calls[0];
  all.kernels.clear();
  all.calls.clear();
  all.outputs.clear();
  std::erase_if(all.buffers,
                [](const common::Buffer& b) { return b.kind == common::BufferKind::kOutput; });
  graph = alone.graph;
  graph.outputs.clear();
  for (const Variant& variant : variants) {
    common::Call call = first;
    call.kernel = static_cast<int>(all.kernels.size());
    call.outputs.clear();
    for (const common::GraphOutput& output : alone.graph.outputs) {
      const common::Node& node = alone.graph.node(output.node);
      call.outputs.push_back(static_cast<int>(all.buffers.size()));
      all.buffers.push_back({common::BufferKind::kOutput, static_cast<int>(all.outputs.size()),
                             node.dtype, node.shape});
      graph.outputs.push_back(output);
      all.outputs.push_back(output);
      all.outputs.back().node = -1;
    }
    all.kernels.push_back(variant.kernel);
    all.calls.push_back(std::move(call));
  }
  return all;
}

common::Status measure(const KernelProgram& alone, const std::vector<Variant>& variants,
                       const std::vector<int64_t>& symbols, GpuPlans& plans, TriedKernel& tried) {
  common::Graph graph;
  common::Program all = program_of_all(alone, variants, graph);
  common::MeasureOptions how;
  how.warmups = 1;
  how.repetitions = 4;
  how.time_max_ms = 10'000;
  LFARM_ASSIGN_OR_RETURN(MeasuredCalls measured,
                         measure_calls(plans, graph, std::move(all), symbols, how));
  for (size_t k = 0; k < variants.size(); ++k) tried.schedules[k].measured_us = measured.call_us[k];
  return {};
}

using Measured = std::map<std::pair<int, std::string>, double>;

Measured read_measured(const std::string& path) {
  Measured measured;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.contains("measured_us")) continue;
    measured[{json["kernel"].get<int>(), json["schedule"].get<std::string>()}] =
        json["measured_us"].get<double>();
  }
  return measured;
}

void add_facts(const common::GpuKernelFacts& facts, Json& line) {
  line["blocks"] = facts.blocks;
  line["block_threads"] = facts.block_threads;
  line["registers"] = facts.registers;
  line["in_flight_bytes"] = facts.in_flight_bytes;
  line["wait_clocks"] = facts.wait_clocks;
  line["thread_instructions"] = facts.thread_instructions;
  line["dram_bytes"] = facts.dram_bytes;
  line["sector_bytes"] = facts.sector_bytes;
  line["prefetch_bytes"] = facts.block_prefetch_bytes;
}

std::optional<common::GpuKernelFacts> facts_of(const common::Kernel& kernel,
                                               const common::Target& target) {
  if (kernel.form != common::Template::kLoops) return std::nullopt;
  auto nest = common::choose_gpu_nest(common::lower_structure(kernel.body, common::Kept::kNone),
                                      kernel.schedule, common::gpu_machine_of_target(target.name));
  if (!nest.ok() || nest->nest != kernel.nest) return std::nullopt;
  return nest->facts.front();
}

void print_kernel(const common::Kernel& kernel, const TriedKernel& tried) {
  std::vector<double> predicted, measured;
  const TriedSchedule* chosen = nullptr;  // by predictions
  const TriedSchedule* best = nullptr;
  for (const TriedSchedule& one : tried.schedules) {
    Json line{{"kernel", tried.kernel},
              {"form", common::template_name(kernel.form)},
              {"schedule", one.name},
              {"predicted_us", one.predicted_us}};
    if (one.measured_us > 0) line["measured_us"] = one.measured_us;
    if (one.facts) add_facts(*one.facts, line);
    std::printf("%s\n", line.dump().c_str());
    if (one.measured_us <= 0 || !std::isfinite(one.predicted_us)) continue;
    predicted.push_back(one.predicted_us);
    measured.push_back(one.measured_us);
    if (chosen == nullptr || one.predicted_us < chosen->predicted_us) chosen = &one;
    if (best == nullptr || one.measured_us < best->measured_us) best = &one;
  }
  if (best == nullptr) return;
  Json line{{"summary", tried.kernel},
            {"form", common::template_name(kernel.form)},
            {"schedules", measured.size()},
            {"rank_correlation", coordinator::rank_correlation(predicted, measured)},
            {"own_us", tried.schedules[0].measured_us},
            {"chosen", chosen->name},
            {"chosen_us", chosen->measured_us},
            {"best", best->name},
            {"best_us", best->measured_us}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

common::Status report(const ScheduleOptions& options) {
  LFARM_ASSIGN_OR_RETURN(std::string bytes, common::read_file(options.program));
  LFARM_ASSIGN_OR_RETURN(common::Program program, common::decode_program(common::as_bytes(bytes)));
  common::Target target{options.target};
  worker::CudaCodeGenerator generator(target);
  std::unique_ptr<GpuPlans> plans;
  if (options.measures) {
    LFARM_ASSIGN_OR_RETURN(plans, open_gpu(target));
  }
  const Measured earlier = options.measured.empty() ? Measured() : read_measured(options.measured);
  std::vector<int64_t> sizes = common::representative_sizes(program.symbols);
  for (size_t k = 0; options.size > 0 && k < sizes.size(); ++k) {
    sizes[k] = common::size_within(program.symbols[k], options.size);
  }
  const std::vector<KernelProgram> alone = kernel_programs(program);
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const common::Kernel& kernel = program.kernels[k];
    if (common::schedule_parameters(kernel.form).empty()) continue;
    auto call = std::ranges::find(program.calls, static_cast<int>(k), &common::Call::kernel);
    if (call == program.calls.end()) continue;
    const std::vector<int64_t> symbols = common::call_symbols(*call, sizes);
    std::vector<Variant> variants = variants_of(kernel, target, generator);
    double result_bytes = 1;
    for (double bytes : common::bytes_written(kernel.body, symbols)) result_bytes += bytes;
    const double most = std::max(1.0, kResultBytesMax / result_bytes);
    if (static_cast<double>(variants.size()) > most) variants.resize(static_cast<size_t>(most));
    TriedKernel tried{static_cast<int>(k), {}};
    for (const Variant& variant : variants) {
      double ns = common::predict_ns(variant.kernel, symbols, common::device_terms(target));
      auto known = earlier.find({tried.kernel, variant.name});
      tried.schedules.push_back({variant.name, ns * 1e-3,
                                 known == earlier.end() ? 0 : known->second,
                                 facts_of(variant.kernel, target)});
    }
    if (plans != nullptr) {
      common::Status measured = measure(alone[k], variants, symbols, *plans, tried);
      // Others can be measured all the same.
      if (!measured.ok()) {
        std::fprintf(stderr, "lfarm-bench: kernel %zu: %s\n", k, measured.error().message.c_str());
      }
    }
    print_kernel(kernel, tried);
  }
  return {};
}

std::optional<ScheduleOptions> parse(const std::vector<std::string>& arguments) {
  ScheduleOptions options;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const std::string& name = arguments[k];
    if (name == "--measure") {
      options.measures = true;
    } else if (!name.starts_with("--")) {
      if (!options.program.empty()) return std::nullopt;
      options.program = name;
    } else if (++k == arguments.size()) {
      return std::nullopt;
    } else if (name == "--target") {
      options.target = arguments[k];
    } else if (name == "--size") {
      options.size = std::strtol(arguments[k].c_str(), nullptr, 10);
    } else if (name == "--measured") {
      options.measured = arguments[k];
    } else {
      return std::nullopt;
    }
  }
  if (options.program.empty() || options.size < 0) return std::nullopt;
  return options;
}

}  // namespace

int run_gpu_schedules(const std::vector<std::string>& arguments) {
  auto options = parse(arguments);
  if (!options) {
    std::fprintf(stderr,
                 "usage: lfarm-bench gpu-schedules PROGRAM [--target cuda-sm_NN] [--size N] "
                 "[--measure | --measured FILE]\n");
    return 2;
  }
  common::Status done = report(*options);
  if (done.ok()) return 0;
  std::fprintf(stderr, "lfarm-bench: %s\n", done.error().message.c_str());
  return 1;
}

}  // namespace bench
