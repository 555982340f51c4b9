#include "coordinator/service/inspect/plan_work.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/cost/kernels/cost_model.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/inspect/state_command.h"
#include "coordinator/service/plans/recipe.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::Op;
using common::Program;
using common::Result;

namespace {

// Additions and multiplications of a transform of real rows, a point and halving of its row.
constexpr double kTransformStep = 2.5;

bool holds(const common::Graph& body, Op op) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [op](const common::Node& node) { return node.op == op; });
}

std::string_view operation_of(const common::Kernel& kernel) {
  using common::Template;
  switch (kernel.form) {
    case Template::kTile:
    case Template::kGemm:
      return "matmul";
    case Template::kAttention:
      return "attention";
    case Template::kFourier:
      return "fourier";
    case Template::kScan:
      return "scan";
    case Template::kScatter:
      return "scatter";
    case Template::kSort:
      return "sort";
    case Template::kLoops:
    case Template::kHorizontal:
      break;
  }
  // What weighs most comes first.
  struct Named {
    Op op;
    std::string_view name;
  };
  for (const Named& named :
       {Named{Op::kContract, "matmul"}, Named{Op::kSoftmax, "softmax"}, Named{Op::kNorm, "norm"},
        Named{Op::kReduce, "reduce"}, Named{Op::kGather, "gather"}}) {
    if (holds(kernel.body, named.op)) return named.name;
  }
  return "elementwise";
}

bool multiplies_halves(const common::Graph& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const common::Node& node) {
    return node.op == Op::kContract && common::dtype_size(body.node(node.operands[0]).dtype) == 2;
  });
}

Result<Program> read_program(cache::Store& store, const std::string& state_plan) {
  auto digest = Digest::parse(state_plan);
  if (!digest) return common::invalid_input(cat("'", state_plan, "' is no plan's id"));
  return program_of_plan(store, *digest);
}

}  // namespace

std::vector<CallWork> work_of(const Program& program, const std::vector<int64_t>& sizes) {
  std::vector<CallWork> all;
  for (const common::Call& call : program.calls) {
    const common::Kernel& kernel = program.kernels[static_cast<size_t>(call.kernel)];
    common::KernelProfile profile = profile_kernel(kernel, call_symbols(call, sizes));
    CallWork work;
    work.kernel = common::kernel_fingerprint(kernel);
    work.operation = operation_of(kernel);
    work.operations = 2 * profile.contraction_ops + profile.simple_ops + profile.row_ops +
                      profile.hard_ops + profile.sort_steps +
                      kTransformStep * profile.transform_steps;
    work.is_half = multiplies_halves(kernel.body);
    all.push_back(work);
  }
  return all;
}

Result<Program> program_of_plan(cache::Store& store, const Digest& plan) {
  LFARM_ASSIGN_OR_RETURN(auto stored, store.plan_of_id(plan));
  for (const Digest& need : stored ? stored->needs : std::vector<Digest>()) {
    LFARM_ASSIGN_OR_RETURN(auto blob, store.get_blob(need));
    if (!blob || !is_recipe(common::as_bytes(*blob))) continue;
    LFARM_ASSIGN_OR_RETURN(Recipe recipe, decode_recipe(common::as_bytes(*blob)));
    LFARM_ASSIGN_OR_RETURN(common::TaskPayload payload,
                           common::decode_task_payload(recipe.payload));
    return std::move(payload.program);
  }
  return common::invalid_input(
      cat("the store does not have what plan ", plan.short_hex(), " was made of"));
}

int run_work(int argc, const char* const* argv) {
  std::string plan;
  std::vector<int64_t> sizes;
  CLI::App app("Counts what each call of a plan computes.", "lfarm-coordinator work");
  app.add_option("--sizes", sizes, "the values of the plan's symbols")->delimiter(',');
  app.add_option("plan", plan, "the plan's id")->required();
  OpenedState opened = open_state(app, argc, argv);
  if (!opened.store) return opened.exit_code;
  auto program = read_program(*opened.store, plan);
  if (!program.ok()) return fail(program.error());
  if (sizes.size() != program->symbols.size()) {
    return fail(common::invalid_input(
        cat("the plan has ", program->symbols.size(), " symbols, not ", sizes.size())));
  }
  for (const CallWork& work : work_of(*program, sizes)) {
    nlohmann::ordered_json line{{"kernel", work.kernel.hex()},
                                {"operation", std::string(work.operation)},
                                {"operations", work.operations},
                                {"half", work.is_half}};
    std::printf("%s\n", line.dump().c_str());
  }
  return 0;
}

}  // namespace coordinator::service
