#include "clients/cli/plans/plan_profile.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "clients/cli/base/case_measure.h"
#include "clients/cli/base/child_stage.h"
#include "clients/runtime/model/size_ranges.h"
#include "clients/runtime/model/weights.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/sizes.h"
#include "common/plan/kernel_origins.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/tensor/synthetic.h"
#include "common/runtime/whole_run.h"

namespace clients {

using common::cat;
using common::HostTensor;
using common::InputKind;
using common::Result;
using common::Status;

namespace {

constexpr int64_t kMeasureNs = 500'000'000;
constexpr size_t kRunsMin = 5;
constexpr size_t kRunsMax = 2000;

size_t at(int index) { return static_cast<size_t>(index); }

// Inputs for a graph that is known by its inputs alone: what may be a position is 0.
Result<std::vector<HostTensor>> inputs_of(const common::Plan& plan, const Model* model,
                                          const std::vector<int64_t>& sizes) {
  if (model != nullptr) {
    return common::synthetic_inputs(model->graph, sizes, 0, common::InputPattern::kNormal);
  }
  common::Graph graph;
  graph.symbols = plan.symbols;
  graph.inputs = plan.inputs;
  LFARM_ASSIGN_OR_RETURN(auto inputs,
                         common::synthetic_inputs(graph, sizes, 0, common::InputPattern::kNormal));
  for (HostTensor& input : inputs) {
    if (common::is_float(input.dtype()) || input.dtype() == common::DType::kComplex64) continue;
    auto bytes = input.mutable_bytes();
    std::memset(bytes.data(), 0, bytes.size());
  }
  return inputs;
}

// The model's own weights and states in place of random ones.
Status bind_stored(const Model& model, Weights& weights, common::Executor& executor) {
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    int position = static_cast<int>(i);
    if (model.graph.inputs[i].kind == InputKind::kWeight) {
      LFARM_ASSIGN_OR_RETURN(common::TensorRef content, weights.on_device(position));
      LFARM_RETURN_IF_ERROR(executor.bind_weight(position, content));
    } else if (model.graph.inputs[i].kind == InputKind::kState) {
      LFARM_ASSIGN_OR_RETURN(HostTensor content, weights.on_host(position));
      LFARM_RETURN_IF_ERROR(executor.set_state(position, content));
    }
  }
  return executor.prepare();
}

// Calls `run` for a while; it gives the device's time. `wall`: what the host waited.
template <class Run>
Status repeat(const Run& run, std::vector<int64_t>* device, std::vector<int64_t>* wall) {
  common::SteadyClock clock;
  for (int64_t spent = 0;
       device->size() < kRunsMax && (spent < kMeasureNs || device->size() < kRunsMin);) {
    int64_t start = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(int64_t taken, run());
    int64_t waited = clock.now_ns() - start;
    spent += waited;
    device->push_back(taken);
    wall->push_back(waited);
  }
  return {};
}

// What a call's buffers hold.
void count_bytes(const common::Plan& plan, const common::Call& call,
                 const std::vector<int64_t>& sizes, KernelRun* kernel) {
  double all = 0;
  auto add = [&](int id) {
    const common::Buffer& buffer = plan.buffers[at(id)];
    double bytes = common::count_bytes(buffer.dtype, buffer.shape, sizes);
    all += bytes;
    (buffer.kind == common::BufferKind::kInput ? kernel->weight_bytes : kernel->other_bytes) +=
        bytes;
  };
  for (int id : call.inputs) add(id);
  for (int id : call.outputs) add(id);
  kernel->call_bytes = std::max(kernel->call_bytes, all);
}

// Times of calls, run by run, summed over the calls of each kernel.
std::vector<KernelRun> kernels_of(const common::Plan& plan,
                                  const std::vector<common::CallFacts>& facts,
                                  const std::vector<std::vector<int64_t>>& times,
                                  const std::vector<int64_t>& sizes) {
  std::map<std::string, std::vector<size_t>> calls_of;  // by the kernel's fingerprint
  std::vector<std::string> order;
  for (size_t c = 0; c < facts.size(); ++c) {
    std::string id = facts[c].fingerprint.hex();
    if (calls_of[id].empty()) order.push_back(id);
    calls_of[id].push_back(c);
  }
  std::vector<KernelRun> kernels;
  for (const std::string& id : order) {
    const std::vector<size_t>& calls = calls_of[id];
    KernelRun& kernel = kernels.emplace_back();
    kernel.name = facts[calls[0]].name;
    kernel.id = id;
    kernel.calls = static_cast<int64_t>(calls.size());
    std::vector<int64_t> sums;
    for (const std::vector<int64_t>& run : times) {
      int64_t sum = 0;
      for (size_t c : calls) sum += run[c];
      sums.push_back(sum);
    }
    bool ran = std::any_of(sums.begin(), sums.end(), [](int64_t ns) { return ns > 0; });
    if (ran) kernel.latency = latency_of(&sums);
    for (size_t c : calls) count_bytes(plan, plan.calls[c], sizes, &kernel);
  }
  return kernels;
}

void name_modules(const common::Plan& plan, const Model& model, PlanRun* run) {
  std::map<std::string, common::KernelOrigin> by_id;
  auto origins = common::kernel_origins(plan, model.graph.inputs);
  for (size_t k = 0; k < origins.size(); ++k) by_id[plan.kernels[k].fingerprint.hex()] = origins[k];
  for (KernelRun& kernel : run->kernels) {
    kernel.modules = by_id[kernel.id].modules;
    kernel.sources = by_id[kernel.id].sources;
  }
}

// What is there of it.
std::vector<std::pair<std::string, double>> memory_of(const common::ExecutorMemory& memory) {
  std::vector<std::pair<std::string, double>> told;
  auto add = [&](const char* what, size_t bytes) {
    if (bytes > 0) told.emplace_back(what, static_cast<double>(bytes));
  };
  add("weights", memory.weights);
  add("prepacked copies", memory.prepacked);
  add("states", memory.states);
  add("arena", memory.arena);
  add("scratch", memory.scratch);
  add("staging", memory.staging);
  add("code", memory.code);
  return told;
}

double library_operations(const common::PlanKernel& kernel, const common::Call& call,
                          const std::vector<int64_t>& sizes) {
  std::vector<int64_t> symbols;
  for (const common::Expr& e : call.symbols) symbols.push_back(e.evaluate(sizes));
  common::GemmSizes gemm = common::evaluate(kernel.gemm, symbols);
  return 2.0 * static_cast<double>(gemm.batch) * static_cast<double>(gemm.m) *
         static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
}

// What the coordinator's binary counts: lines by the kernel's fingerprint, in the calls' order.
struct Counted {
  std::string operation;
  double operations = 0;
  bool is_half = false;
};
using CountedCalls = std::map<std::string, std::deque<Counted>>;

Result<CountedCalls> counted_calls(const PulledPlan& plan, const std::string& state,
                                   const std::vector<int64_t>& sizes) {
  std::vector<std::string> arguments{"lfarm-coordinator", "work", "--state", state};
  std::string list;
  for (int64_t size : sizes) list += cat(list.empty() ? "" : ",", size);
  if (!list.empty()) arguments.insert(arguments.end(), {"--sizes", list});
  arguments.push_back(plan.id.hex());
  LFARM_ASSIGN_OR_RETURN(std::string text, run_stage(arguments, {}));
  CountedCalls counted;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return common::internal_error("lfarm-coordinator counts in other words");
    counted[json.value("kernel", "")].push_back(
        {json.value("operation", ""), json.value("operations", 0.0), json.value("half", false)});
  }
  return counted;
}

}  // namespace

Result<std::vector<int64_t>> sizes_of(const common::Plan& plan, const std::string& text) {
  std::vector<int64_t> sizes = common::representative_sizes(plan.symbols);
  LFARM_ASSIGN_OR_RETURN(auto parts, parse_size_ranges(text));
  if (parts.size() > 1) {
    return common::invalid_input(cat("'", text, "' is more than one part of the sizes"));
  }
  for (const SizeRange& one : parts.empty() ? SizeRanges() : parts[0]) {
    const auto& symbols = plan.symbols;
    bool known = one.symbol >= 0 && at(one.symbol) < symbols.size();
    if (!known || one.range.min != one.range.max || one.range.min < symbols[at(one.symbol)].min ||
        one.range.max > symbols[at(one.symbol)].max) {
      return common::invalid_input(
          cat("s", one.symbol, " of '", text, "' is no single size that the plan is for"));
    }
    sizes[at(one.symbol)] = one.range.min;
  }
  return sizes;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (size_t k = 0; k < sizes.size(); ++k) text += cat(k == 0 ? "s" : ",s", k, "=", sizes[k]);
  return text;
}

Result<PlanRun> profile_plan(const PulledPlan& plan, const Model* model,
                             const std::vector<int64_t>& sizes, common::Device& device) {
  LFARM_ASSIGN_OR_RETURN(auto executor,
                         common::Executor::load(plan.plan, plan.object_source(), device));
  std::vector<HostTensor> inputs;
  std::unique_ptr<Weights> weights;
  if (model != nullptr) {
    LFARM_RETURN_IF_ERROR(common::plan_fits(plan.plan, model->graph));
    // Not owned: it outlives the weights.
    std::shared_ptr<const Model> shared(std::shared_ptr<const Model>(), model);
    weights = std::make_unique<Weights>(shared, &device);
    LFARM_RETURN_IF_ERROR(bind_stored(*model, *weights, *executor));
    LFARM_ASSIGN_OR_RETURN(auto all, inputs_of(plan.plan, model, sizes));
    for (size_t i = 0; i < all.size(); ++i) {
      if (model->graph.inputs[i].kind == InputKind::kUser) inputs.push_back(std::move(all[i]));
    }
  } else {
    LFARM_ASSIGN_OR_RETURN(auto all, inputs_of(plan.plan, nullptr, sizes));
    LFARM_ASSIGN_OR_RETURN(inputs, common::bind_inputs(*executor, all));
    LFARM_RETURN_IF_ERROR(executor->prepare());
  }
  PlanRun run;
  if (model != nullptr) run.work = work_of(model->graph, sizes);
  run.plan = plan.id.hex();
  run.graph = plan.plan.key.graph_hash.hex();
  run.target = plan.plan.key.target.name;
  run.sizes = sizes_text(sizes);
  common::RunOutputs outputs;
  LFARM_RETURN_IF_ERROR(executor->run_total_ns(inputs, outputs));  // the first one lays out memory
  std::vector<int64_t> totals, walls;
  LFARM_RETURN_IF_ERROR(
      repeat([&] { return executor->run_total_ns(inputs, outputs); }, &totals, &walls));
  run.latency = latency_of(&totals);
  // Where the device uses the host's memory nothing is copied.
  if (!device.uses_host_memory()) {
    run.transfer_ns = std::max(0.0, latency_of(&walls).median_ns - run.latency.median_ns);
  }
  std::vector<std::vector<int64_t>> calls;
  totals.clear();
  LFARM_RETURN_IF_ERROR(repeat(
      [&]() -> Result<int64_t> {
        LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> times, executor->run_calls_ns(inputs, outputs));
        calls.push_back(std::move(times));
        return int64_t{0};
      },
      &totals, &walls));
  for (const common::Buffer& buffer : plan.plan.buffers) {
    if (buffer.kind != common::BufferKind::kInput) continue;
    run.resident_bytes += common::count_bytes(buffer.dtype, buffer.shape, sizes);
  }
  run.kernels = kernels_of(plan.plan, executor->call_facts(), calls, sizes);
  run.memory = memory_of(executor->memory());
  if (model != nullptr) name_modules(plan.plan, *model, &run);
  if (run.kernels.empty()) run.latency = {};
  return run;
}

Status count_operations(const PulledPlan& plan, const std::string& state,
                        const std::vector<int64_t>& sizes, PlanRun* run) {
  std::map<std::string, KernelRun*> by_id;
  for (KernelRun& kernel : run->kernels) by_id[kernel.id] = &kernel;
  auto counted = counted_calls(plan, state, sizes);
  for (const common::Call& call : plan.plan.calls) {
    const common::PlanKernel& kernel = plan.plan.kernels[at(call.kernel)];
    auto place = by_id.find(kernel.fingerprint.hex());
    if (place == by_id.end()) continue;
    KernelRun& into = *place->second;
    auto add = [&into](double operations) {
      into.operations = into.operations.value_or(0) + operations;
    };
    if (kernel.library) {
      into.operation = "matmul";
      add(library_operations(kernel, call, sizes));
      continue;
    }
    if (!counted.ok()) continue;
    auto known = counted->find(place->first);
    if (known == counted->end() || known->second.empty()) continue;
    const Counted& one = known->second.front();
    into.operation = one.operation;
    into.is_half = one.is_half;
    add(one.operations);
    known->second.pop_front();
  }
  return counted.ok() ? Status() : Status(counted.error());
}

}  // namespace clients
