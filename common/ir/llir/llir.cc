#include "common/ir/llir/llir.h"

#include <algorithm>
#include <array>

#include "common/base/cat.h"
#include "common/base/check.h"
#include "common/base/contains.h"
#include "common/ir/expr/index.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/call_flow.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/llir/in_place.h"
#include "common/ir/llir/kernel_identity.h"

namespace common {
namespace {
constexpr std::array<std::string_view, kTemplateCount> kTemplateNames = {
    "loops", "tile", "scan", "scatter", "sort", "gemm", "attention", "fourier", "horizontal"};

std::string schedule_text(const Schedule& schedule) {
  std::string out;
  for (const ScheduleParameter& p : schedule) out += cat(" ", p.name, "=", p.value);
  return out;
}

std::string nest_text(const Kernel& kernel) {
  std::string text = kernel.tiling ? cat("tiling ", print(*kernel.tiling), "\n") : "";
  if (kernel.nest) text += cat("nest\n", print(*kernel.nest));
  for (size_t k = 0; k < kernel.part_nests.size(); ++k) {
    if (kernel.part_nests[k].groups.empty()) continue;
    text += cat("nest of output ", k, "\n", print(kernel.part_nests[k]));
  }
  return text;
}

}  // namespace

std::string_view template_name(Template t) {
  LFARM_CHECK(static_cast<size_t>(t) < kTemplateNames.size(), "template out of range");
  return kTemplateNames[static_cast<size_t>(t)];
}

const std::vector<ScheduleChoice>& schedule_parameters(Template t) {
  static const std::vector<ScheduleChoice> kNone;
  static const std::vector<ScheduleChoice> kLoops = {
      {"stage", {1, 0}},
      {"unroll", {1, 2, 4, 8}},
      {"vector", {0, 4, 8, 16}},
      {"access", {0, 1, 2, 4, 8}, false, true},
      {"rows", {0, 1, 2, 4, 8}, false, true},
      {"team", {0, 1, 8, 32, 64, 128, 256, 512, 1024}, false, true}};
  // 0: what suits the sizes and the target.
  static const std::vector<ScheduleChoice> kTile = {
      {"kc", {0, 64, 128, 256, 512}},
      {"mc", {0, 32, 64, 128, 256}},
      {"mr", {0, 1, 2, 4, 6, 8, 12}},
      {"nc", {0, 64, 128, 256, 512}},
      {"nr", {0, 8, 16, 32, 48, 64}},
      {"stores", {0, kStoresRowsAtOnce, kStoresRowByRow}},
      {"block_columns", {0, 16, 32, 64, 128}, false, true},
      {"block_rows", {0, 16, 32, 64, 128}, false, true},
      {"splits", {0, 1, 2, 4, 8, 16, 32}, false, true},
      {"warpgroups",
       {0, 1, 64064, 64128, 64256, 128064, 128128, 128256, 192064, 192128, 256064},
       false,
       false,
       true},
      {"stages", {0, 3, 4, 6}, false, false, true},
      {"clusters", {0, 1, 2, 4, 102, 104}, false, false, true}};
  static const std::vector<ScheduleChoice> kAttention = {
      {"keys", {0, 32, 64, 128, 256, 512}},
      {"online", {1, 0}, true, true},
      {"rows", {0, 8, 16, 32, 64, 128}},
      {"block_keys", {0, 32, 64}, false, true},
      {"block_rows", {0, 16, 32, 64, 128}, false, true},
      {"splits", {0, 1, 2, 4, 8, 16, 32}, false, true}};
  static const std::vector<ScheduleChoice> kGemm = {
      {"algorithm", {0, 1, 2, 3, 4, 5, 6, 7}, false, true}};
  if (t == Template::kLoops) return kLoops;
  if (t == Template::kTile) return kTile;
  if (t == Template::kGemm) return kGemm;
  if (t == Template::kAttention) return kAttention;
  return kNone;
}

int64_t schedule_value(const Schedule& schedule, Template t, std::string_view name) {
  for (const ScheduleParameter& p : schedule) {
    if (p.name == name) return p.value;
  }
  for (const ScheduleChoice& choice : schedule_parameters(t)) {
    if (choice.name == name) return choice.values[0];
  }
  LFARM_CHECK(false, cat("template ", template_name(t), " has no parameter ", name));
}

Digest kernel_fingerprint(Template form, const Schedule& schedule, const Digest& body) {
  Hasher hasher;
  hasher.text("lfarm-kernel-1").text(template_name(form)).u64(schedule.size());
  for (const ScheduleParameter& p : schedule) hasher.text(p.name).i64(p.value);
  hasher.digest(body);
  return hasher.finish();
}

Digest kernel_fingerprint(const Kernel& kernel) {
  return kernel_fingerprint(kernel.form, kernel.schedule, graph_hash(kernel.body));
}

Digest code_fingerprint(const Kernel& kernel) {
  Digest plain = kernel_fingerprint(kernel);
  std::string nests = nest_text(kernel);
  if (nests.empty()) return plain;
  return Hasher().text("lfarm-nest-2").digest(plain).text(nests).finish();
}

namespace {

// What the sizes of a tiling may be is known to who prints it.
bool may_be_tiled(const Kernel& kernel) {
  if (kernel.nest && !kernel.nest->is_epilogue) return false;
  return kernel.form == Template::kTile || kernel.form == Template::kAttention ||
         kernel.form == Template::kFourier || kernel.form == Template::kSort ||
         kernel.form == Template::kScan;
}

Status verify_kernel(const Kernel& kernel) {
  LFARM_RETURN_IF_ERROR(verify(kernel.body));
  for (const Node& node : kernel.body.nodes) {
    if (node.op == Op::kLoop) return invalid_input("a kernel's body holds a loop");
  }
  for (const GraphInput& input : kernel.body.inputs) {
    if (input.kind != InputKind::kUser) return invalid_input("a kernel's inputs must be plain");
  }
  for (const GraphOutput& output : kernel.body.outputs) {
    if (output.kind != OutputKind::kUser) return invalid_input("a kernel's outputs must be plain");
  }
  if (kernel.body.outputs.empty()) return invalid_input("a kernel writes nothing");
  const auto& choices = schedule_parameters(kernel.form);
  for (size_t k = 0; k < kernel.schedule.size(); ++k) {
    const ScheduleParameter& p = kernel.schedule[k];
    if (k != 0 && kernel.schedule[k - 1].name >= p.name) return invalid_input("unsorted schedule");
    auto choice = std::find_if(choices.begin(), choices.end(),
                               [&](const ScheduleChoice& c) { return c.name == p.name; });
    if (choice == choices.end() || !contains(choice->values, p.value)) {
      return invalid_input(cat("schedule parameter ", p.name, "=", p.value, " is unknown"));
    }
  }
  LFARM_RETURN_IF_ERROR(verify_horizontal(kernel));
  if (kernel.tiling && !may_be_tiled(kernel)) {
    return invalid_input(cat("a kernel of ", template_name(kernel.form), " has no tiling"));
  }
  if (!kernel.nest) return {};
  if (kernel.nest->is_epilogue && kernel.form != Template::kTile) {
    return invalid_input("an epilogue belongs to a tile");
  }
  if (kernel.form == Template::kScatter && !is_looped_scatter(kernel, 0)) {
    return invalid_input("this scatter has no loops");
  }
  Status nest = verify(*kernel.nest, nest_body(kernel.body, *kernel.nest));
  return nest.ok() ? nest : invalid_input(cat("its nest: ", nest.error().message));
}

Shape in_call(const Shape& shape, const Call& call) {
  Shape result;
  for (const Expr& size : shape) {
    result.push_back(size.substitute([&](Var v) { return call.symbols[at(v.id)]; }));
  }
  return result;
}

// Whether the call's buffers have the types of its kernel's inputs and outputs.
Status verify_signature(const Program& program, const Call& call) {
  const Graph& body = program.kernels[at(call.kernel)].body;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Buffer& buffer = program.buffers[at(call.inputs[k])];
    if (buffer.dtype != body.inputs[k].dtype ||
        buffer.shape != in_call(body.inputs[k].shape, call)) {
      return invalid_input(cat("buffer ", call.inputs[k], " does not fit input ", k));
    }
  }
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    const Buffer& buffer = program.buffers[at(call.outputs[k])];
    const Node& result = body.node(body.outputs[k].node);
    if (buffer.dtype != result.dtype || buffer.shape != in_call(result.shape, call)) {
      return invalid_input(cat("buffer ", call.outputs[k], " does not fit output ", k));
    }
  }
  return {};
}

Status verify_call(const Program& program, const Call& call, CallFlow& flow) {
  if (call.kernel < 0 || at(call.kernel) >= program.kernels.size()) {
    return invalid_input("no such kernel");
  }
  const Graph& body = program.kernels[at(call.kernel)].body;
  if (call.inputs.size() != body.inputs.size() || call.outputs.size() != body.outputs.size() ||
      call.symbols.size() != body.symbols.size()) {
    return invalid_input("does not fit its kernel's signature");
  }
  LFARM_RETURN_IF_ERROR(flow.add(call));
  return verify_signature(program, call);
}

}  // namespace

Status verify(const Program& program) {
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    Status status = verify_kernel(program.kernels[k]);
    if (!status.ok()) return invalid_input(cat("kernel ", k, ": ", status.error().message));
  }
  LFARM_RETURN_IF_ERROR(verify_buffers(program.buffers, program.inputs, program.outputs));
  LFARM_RETURN_IF_ERROR(
      verify_checks(program.buffers, program.inputs, program.outputs, program.symbols.size()));
  CallFlow flow(program.buffers, program.symbols.size());
  for (size_t c = 0; c < program.calls.size(); ++c) {
    Status status = verify_call(program, program.calls[c], flow);
    if (!status.ok()) return invalid_input(cat("call ", c, ": ", status.error().message));
  }
  return flow.finish(program.outputs.size());
}

std::string print(const Kernel& kernel) {
  return cat("kernel ", template_name(kernel.form), schedule_text(kernel.schedule), "\n",
             print(kernel.body), nest_text(kernel));
}

std::string print(const Program& program) {
  std::string out;
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    out += cat("symbol s", s, " ", program.symbols[s].min, "..", program.symbols[s].max, "\n");
  }
  static constexpr std::string_view kKinds[] = {"input", "output", "temporary"};
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    out += cat("buffer ", b, " ", kKinds[static_cast<size_t>(buffer.kind)]);
    if (buffer.kind != BufferKind::kTemporary) out += cat(" ", buffer.position);
    out += cat(" ", dtype_name(buffer.dtype), shape_text(buffer.shape), "\n");
  }
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    out += cat("kernel ", k, " ", template_name(program.kernels[k].form),
               schedule_text(program.kernels[k].schedule), " {\n", print(program.kernels[k].body),
               nest_text(program.kernels[k]), "}\n");
  }
  for (const Call& call : program.calls) {
    out += cat("call ", call.kernel, " (");
    for (size_t k = 0; k < call.inputs.size(); ++k) out += cat(k ? " " : "", call.inputs[k]);
    out += ") -> (";
    for (size_t k = 0; k < call.outputs.size(); ++k) out += cat(k ? " " : "", call.outputs[k]);
    out += ")";
    if (!call.symbols.empty()) out += cat(" symbols=", shape_text(call.symbols));
    out += "\n";
  }
  return out;
}

std::vector<Digest> body_hashes(const Program& program) {
  std::vector<Digest> bodies;
  bodies.reserve(program.kernels.size());
  for (const Kernel& kernel : program.kernels) bodies.push_back(graph_hash(kernel.body));
  return bodies;
}

Digest program_fingerprint(const Program& program) {
  return program_fingerprint(program, body_hashes(program));
}

Digest program_fingerprint(const Program& program, std::span<const Digest> bodies) {
  LFARM_CHECK(bodies.size() == program.kernels.size(), "a kernel without the hash of its body");
  Hasher hasher;
  hasher.text("lfarm-program-1").u64(program.kernels.size());
  for (size_t k = 0; k < bodies.size(); ++k) {
    const Kernel& kernel = program.kernels[k];
    hasher.digest(kernel_fingerprint(kernel.form, kernel.schedule, bodies[k]));
  }
  Program shell;
  shell.symbols = program.symbols;
  shell.inputs = program.inputs;
  shell.outputs = program.outputs;
  shell.buffers = program.buffers;
  shell.calls = program.calls;
  for (GraphInput& input : shell.inputs) input.name.clear();
  hasher.text(print(shell)).u64(program.inputs.size()).u64(program.outputs.size());
  return hasher.finish();
}

}  // namespace common
