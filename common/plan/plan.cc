#include "common/plan/plan.h"

#include <cmath>
#include <ctime>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/call_flow.h"
#include "common/ir/llir/load_time.h"
#include "common/plan/io_profile.h"
#include "common/plan/run_memory.h"
#include "common/plan/speedup.h"
#include "common/text/units.h"

namespace common {
namespace {

bool in_scope(const GemmForm& form, size_t symbols) {
  bool ok = true;
  for (const Expr* e : {&form.batch, &form.m, &form.n, &form.k}) {
    ok = ok && symbols_in_scope(*e, symbols);
  }
  for (const GemmOperand* o : {&form.a, &form.b, &form.out}) {
    for (const Expr* e : {&o->offset, &o->batch_stride, &o->row_stride, &o->column_stride}) {
      ok = ok && symbols_in_scope(*e, symbols);
    }
  }
  return ok;
}
}  // namespace

std::string_view family_of(std::string_view target) { return target.substr(0, target.find('-')); }

bool is_target(std::string_view target, std::string_view wanted) {
  return target == wanted || (is_family(wanted) && family_of(target) == wanted);
}

Machine machine_of(const Target& target) {
  if (target.name == "cpu-x86_64-avx512bf16" || target.name == "cpu-x86_64-amxbf16") {
    return Machine::kCpuPairs;
  }
  if (target.name.rfind("cuda", 0) != 0) return Machine::kCpu;
  return target.name == "cuda-sm_90a" ? Machine::kGpuWarpgroups : Machine::kGpu;
}

Digest PlanKey::digest() const {
  return Hasher()
      .text("lfarm-plan-key-1")
      .digest(graph_hash)
      .text(target.name)
      .text(policy)
      .text(epoch)
      .finish();
}

PlanKey plan_key_of(const Graph& graph, Target target, std::string policy) {
  return {graph_hash(graph), std::move(target), std::move(policy), std::string(kCompilerEpoch)};
}

namespace {

Status verify_outputs(const Plan& plan) {
  for (const GraphOutput& output : plan.outputs) {
    if (output.kind == OutputKind::kMutate &&
        (output.input < 0 || at(output.input) >= plan.inputs.size())) {
      return corrupt("a plan output mutates no input");
    }
  }
  return {};
}

Status verify_plan_call(const Plan& plan, const Call& call, CallFlow& flow) {
  if (call.kernel < 0 || at(call.kernel) >= plan.kernels.size()) return corrupt("no such kernel");
  const PlanKernel& kernel = plan.kernels[at(call.kernel)];
  if (!symbols_in_scope(kernel.entry.units, call.symbols.size()) ||
      !symbols_in_scope(kernel.entry.scratch_bytes, call.symbols.size())) {
    return corrupt("unknown symbol in a kernel");
  }
  for (const TensorMap& map : kernel.entry.maps) {
    LFARM_RETURN_IF_ERROR(verify(map, call.inputs.size(), call.symbols.size()));
  }
  if (kernel.library &&
      (!in_scope(kernel.gemm, call.symbols.size()) || call.outputs.size() != 1 ||
       kernel.gemm.a_input < 0 || at(kernel.gemm.a_input) >= call.inputs.size() ||
       kernel.gemm.b_input < 0 || at(kernel.gemm.b_input) >= call.inputs.size())) {
    return corrupt("malformed library call");
  }
  bool has_bases = std::all_of(
      kernel.in_place_inputs.begin(), kernel.in_place_inputs.end(),
      [&](int input) { return input >= -1 && (input < 0 || at(input) < call.inputs.size()); });
  if (!has_bases || kernel.in_place_inputs.size() > call.outputs.size()) {
    return corrupt("works in place on no input of its own");
  }
  return flow.add(call);
}

// The same with the code of what should have been in order when the plan was made.
Status as_corrupt(const std::string& where, const Status& status) {
  return status.ok() ? status : corrupt(cat(where, status.error().message));
}

}  // namespace

Status verify(const Plan& plan) {
  LFARM_RETURN_IF_ERROR(
      as_corrupt("plan ", verify_buffers(plan.buffers, plan.inputs, plan.outputs)));
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    for (const Expr& size : plan.buffers[b].shape) {
      if (!symbols_in_scope(size, plan.symbols.size())) {
        return corrupt(cat("plan buffer ", b, " uses an unknown symbol"));
      }
    }
  }
  LFARM_RETURN_IF_ERROR(verify_outputs(plan));
  LFARM_RETURN_IF_ERROR(as_corrupt(
      "plan ", verify_checks(plan.buffers, plan.inputs, plan.outputs, plan.symbols.size())));
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlanKernel& kernel = plan.kernels[k];
    if (!kernel.library && (kernel.object < 0 || at(kernel.object) >= plan.objects.size())) {
      return corrupt(cat("plan kernel ", k, " names no object"));
    }
  }
  CallFlow flow(plan.buffers, plan.symbols.size());
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    LFARM_RETURN_IF_ERROR(
        as_corrupt(cat("plan call ", c, ": "), verify_plan_call(plan, plan.calls[c], flow)));
  }
  return as_corrupt("plan: ", flow.finish(plan.outputs.size()));
}

namespace {

std::string time_text(int64_t wall_ns) {
  auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  char text[32] = "-";
  if (gmtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  }
  return text;
}

std::string print_history(const Provenance& p) {
  std::string out;
  auto line = [&out](const char* name, const std::string& value) {
    if (!value.empty()) out += cat("  ", name, value, "\n");
  };
  if (p.speedup.ratio > 0) {
    line("speedup   ", cat(speedup_text(p), ", ", std::lround(p.disturbed * 100),
                           " % of the measurements disturbed"));
  }
  line("machine   ", p.machine);
  if (p.search.is_interim) line("standing  ", "interim: its search went on");
  if (p.created_ns != 0) line("made at   ", time_text(p.created_ns));
  line("machine   ", p.machine);
  line("toolchain ", p.toolchain);
  line("objects   ", p.second_worker.empty()
                         ? "compiled by one worker"
                         : cat("compiled by two workers alike, the second is ", p.second_worker));
  line("tenant    ", p.tenant);
  line("for key   ", p.submitter);
  line("found by  ", p.origin.found_epoch.empty() ? "" : cat("epoch ", p.origin.found_epoch));
  if (!p.origin.plan.is_zero()) line("from plan ", p.origin.plan.hex());
  if (p.origin.signer != PublicKey{}) line("signed by ", to_hex(p.origin.signer));
  line("imported  ", p.origin.imported_by.empty() ? "" : cat("by ", p.origin.imported_by));
  return out;
}

std::string measured_text(int64_t ns) {
  return ns > 0 ? duration_text(static_cast<double>(ns)) : "-";
}

}  // namespace

std::string print(const Plan& plan) {
  const Provenance& p = plan.provenance;
  std::string out = cat(
      "  key       ", plan.key.digest().hex(), "\n  graph     ", plan.key.graph_hash.hex(),
      "\n  target    ", plan.key.target.name, "\n  policy    ", plan.key.policy, "\n  epoch     ",
      plan.key.epoch, "\n  best      ", measured_text(p.best_ns), "\n  baseline  ",
      measured_text(p.baseline_ns), "\n  predicted ", measured_text(p.prediction.ns),
      "\n  tried     ", p.search.candidates, " candidates, seed ", p.search.seed, "\n  made by   ",
      p.farm, ", measured by ", p.worker, "\n");
  out += print_history(p);
  out += cat("  memory    ", memory_text(plan), "\n");
  for (size_t s = 0; s < plan.symbols.size(); ++s) {
    out += cat("symbol s", s, " ", plan.symbols[s].min, "..", plan.symbols[s].max, "\n");
  }
  static constexpr std::string_view kKinds[] = {"input", "output", "temporary"};
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    out += cat("buffer ", b, " ", kKinds[static_cast<size_t>(buffer.kind)], " ", buffer.position,
               " ", dtype_name(buffer.dtype), shape_text(buffer.shape), "\n");
  }
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const PlanKernel& kernel = plan.kernels[k];
    out += cat("kernel ", k, " ", kernel.fingerprint.short_hex(), " ");
    if (kernel.library) {
      out += cat("library gemm batch=", kernel.gemm.batch.text(), " m=", kernel.gemm.m.text(),
                 " n=", kernel.gemm.n.text(), " k=", kernel.gemm.k.text());
      if (kernel.algorithm != 0) out += cat(" algorithm=", kernel.algorithm);
      out += "\n";
    } else {
      out += cat("object ", plan.objects[at(kernel.object)].short_hex(), " entry ",
                 kernel.entry.name, " units=", kernel.entry.units.text());
      if (const BlockShape& block = kernel.entry.block; block.threads != 0) {
        out += cat(" block=", block.threads, "x", block.units);
      }
      for (size_t k = 0; k < kernel.in_place_inputs.size(); ++k) {
        if (kernel.in_place_inputs[k] >= 0) out += cat(" in-place=", kernel.in_place_inputs[k]);
      }
      out += "\n";
    }
  }
  std::vector<char> at_load = load_time_calls(plan);
  std::vector<int> repeated = repeated_calls(plan.calls, plan.buffers.size());
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const Call& call = plan.calls[c];
    out += cat("call ", call.kernel, " (");
    for (size_t k = 0; k < call.inputs.size(); ++k) out += cat(k ? " " : "", call.inputs[k]);
    out += ") -> (";
    for (size_t k = 0; k < call.outputs.size(); ++k) out += cat(k ? " " : "", call.outputs[k]);
    out += ")";
    if (!call.symbols.empty()) out += cat(" symbols=", shape_text(call.symbols));
    if (at_load[c]) out += " at-load";
    if (repeated[c] >= 0) out += cat(" repeats=", repeated[c]);
    out += "\n";
  }
  return out;
}

std::string print_predictions(const Plan& plan) {
  const Provenance& p = plan.provenance;
  std::string out =
      cat("  key         ", plan.key.digest().hex(), "\n  target      ", plan.key.target.name,
          "\n  calibration ", p.prediction.calibration.empty() ? "none" : p.prediction.calibration,
          "\n  predicted   ", measured_text(p.prediction.ns), "\n  measured    ",
          measured_text(p.best_ns), "\n");
  if (p.prediction.schedules > 1) {
    out += cat("  order       predicted at ", ratio_text(p.prediction.rank_correlation),
               ", by constants alone ", ratio_text(p.prediction.constants_correlation),
               " (Spearman, ", p.prediction.schedules, " schedules)\n");
  }
  IoProfile io =
      io_profile(plan.buffers, plan.calls, plan.outputs, representative_sizes(plan.symbols));
  out += cat("  launches    ", io.launches, "\n  waits       ", io.synchronisations,
             "\n  to host     ", io.host_output_bytes, " bytes\n  traffic     ", io.device_bytes,
             " bytes\n");
  std::vector<char> at_load = load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const PlanKernel& kernel = plan.kernels[at(plan.calls[c].kernel)];
    if (at_load[c]) {
      out += cat("call ", c, " kernel ", plan.calls[c].kernel, " ", kernel.fingerprint.short_hex(),
                 " at load\n");
      continue;
    }
    out += cat("call ", c, " kernel ", plan.calls[c].kernel, " ", kernel.fingerprint.short_hex(),
               " predicted ", measured_text(kernel.predicted_ns), " measured ",
               measured_text(kernel.measured_ns), "\n");
  }
  return out;
}

}  // namespace common
