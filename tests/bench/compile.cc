// compile [--target T] [--kernels N] [--batch B] [--processes P]: what a small kernel costs to
// compile among the others of its candidate, and to find again once it is compiled.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/cuda/cubin.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/device/cpu_device.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "tests/bench/bench.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/codegen/remembering_generator.h"
#include "worker/compile/build_plan.h"
#include "worker/compile/c_compiler.h"
#include "worker/compile/nvrtc_child.h"
#include "worker/compile/nvrtc_compiler.h"
#include "worker/compile/target.h"

namespace bench {
namespace {

using common::BinaryOp;
using common::DType;
using common::Expr;
using common::GraphBuilder;
using common::Kernel;
using common::NodeId;
using common::ReduceOp;
using common::Result;
using common::Shape;
using common::UnaryOp;

constexpr int kCompileMsMax = 600'000;
constexpr int64_t kColumns = 1024;

// What a compilation needs to know of a target.
struct Toolchain {
  common::NestMachine machine = common::Machine::kCpu;
  std::unique_ptr<const worker::CodeGenerator> generator;
  std::shared_ptr<const worker::Compiler> compiler;
};

struct CompileOptions {
  std::string target;
  size_t kernels = 64;
  size_t batch = 16;     // kernels that are missing at once, as those of one candidate
  size_t processes = 1;  // of NVRTC
};

// Kernels as models have them between their products: rows of symbolic number. `k` is in the text
// of each, so no two are alike.
class SmallKernels {
 public:
  Kernel make(size_t k) {
    GraphBuilder b({{1, 8192}});
    builder_ = &b;
    rows_ = {Expr::symbol(0), Expr(kColumns)};
    double constant = 1.0 + static_cast<double>(k) / 1024;
    NodeId x = input("x", DType::kFloat32);
    constexpr size_t kKinds = 6;
    NodeId result{};
    switch (k % kKinds) {
      case 0:  // elementwise
        result = binary(BinaryOp::kAdd, scaled(b.unary(UnaryOp::kSqrt, square(x)), constant),
                        input("y", DType::kFloat32));
        break;
      case 1:  // softmax
        result = softmax(scaled(x, constant));
        break;
      case 2:  // RMS norm
        result = rms_norm(x, constant);
        break;
      case 3:  // gate of a bf16 model
        result = gate(input("g", DType::kBfloat16), input("u", DType::kBfloat16), constant);
        break;
      case 4:  // sums of rows
        result = b.reduce(ReduceOp::kSum, scaled(square(x), constant), {1});
        break;
      default:  // transposed
        result = b.permute(scaled(x, constant), {1, 0});
    }
    b.output(result);
    builder_ = nullptr;
    return {common::Template::kLoops, {}, common::canonical(b.finish())};
  }

 private:
  NodeId input(const char* name, DType dtype) {
    return builder_->input(common::InputKind::kUser, dtype, rows_, name);
  }
  NodeId binary(BinaryOp op, NodeId a, NodeId b) { return builder_->binary(op, a, b); }
  NodeId square(NodeId x) { return binary(BinaryOp::kMul, x, x); }
  NodeId scaled(NodeId x, double constant) {
    return binary(BinaryOp::kMul, x, builder_->scalar(DType::kFloat32, constant));
  }
  NodeId softmax(NodeId x) {
    NodeId largest = builder_->reduce(ReduceOp::kMax, x, {1}, true);
    NodeId shifted = binary(BinaryOp::kAdd, x, scaled(largest, -1));
    NodeId e = builder_->unary(UnaryOp::kExp2, scaled(shifted, 1.4426950408889634));
    return binary(BinaryOp::kMul, e,
                  builder_->unary(UnaryOp::kRecip, builder_->reduce(ReduceOp::kSum, e, {1}, true)));
  }
  NodeId rms_norm(NodeId x, double weight) {
    NodeId mean = scaled(builder_->reduce(ReduceOp::kSum, square(x), {1}, true), 1.0 / kColumns);
    NodeId shifted = binary(BinaryOp::kAdd, mean, builder_->scalar(DType::kFloat32, 1e-6));
    NodeId inverse = builder_->unary(UnaryOp::kRecip, builder_->unary(UnaryOp::kSqrt, shifted));
    return binary(BinaryOp::kMul, scaled(x, weight), inverse);
  }
  NodeId gate(NodeId g, NodeId u, double constant) {
    NodeId wide = builder_->cast(g, DType::kFloat32);
    NodeId e = builder_->unary(UnaryOp::kExp2, scaled(wide, -1.4426950408889634));
    NodeId one = builder_->scalar(DType::kFloat32, constant);
    NodeId sigmoid = builder_->unary(UnaryOp::kRecip, binary(BinaryOp::kAdd, e, one));
    NodeId gated = binary(BinaryOp::kMul, binary(BinaryOp::kMul, wide, sigmoid),
                          builder_->cast(u, DType::kFloat32));
    return builder_->cast(gated, DType::kBfloat16);
  }

  GraphBuilder* builder_ = nullptr;
  Shape rows_;
};

// As a worker has it.
std::unique_ptr<const worker::CodeGenerator> remembered(
    std::unique_ptr<const worker::CodeGenerator> generator) {
  return std::make_unique<worker::RememberingGenerator>(std::move(generator));
}

Result<Toolchain> find_toolchain(const common::Target& target, size_t processes) {
  Toolchain toolchain;
  toolchain.machine = {common::machine_of(target), target.name, {}};
  auto sandbox = common::Sandbox::find(common::SandboxProfile::kCompiling);
  if (target.name.starts_with("cpu")) {
    toolchain.generator =
        remembered(std::make_unique<const worker::CpuCodeGenerator>(worker::unit_of(target)));
    LFARM_ASSIGN_OR_RETURN(toolchain.compiler, worker::find_c_compiler(target, std::move(sandbox)));
    return toolchain;
  }
  if (target.name.starts_with("cuda")) {
    toolchain.generator = remembered(std::make_unique<const worker::CudaCodeGenerator>(target));
    LFARM_ASSIGN_OR_RETURN(
        toolchain.compiler,
        worker::find_nvrtc_compiler(target, {"/proc/self/exe", worker::kNvrtcChildFlag}, processes,
                                    std::move(sandbox)));
    return toolchain;
  }
  return common::unsupported("no code is generated for " + target.name);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

// One entry a kernel, each the share of its batch. Writing its text is part of compiling it.
struct Costs {
  std::vector<double> written_us, compiled_ms, cached_us;
  size_t object_bytes = 0;
  // On a GPU, over the kernels: registers and local memory of a thread.
  size_t on_gpu = 0, spilling = 0;
  uint32_t registers_max = 0;
  uint64_t local_bytes_max = 0;

  void add_object(const common::Bytes& object) {
    object_bytes += object.size();
    auto kernels = common::read_cubin(object);
    if (!kernels.ok()) return;  // an object of the CPU
    for (const common::CubinKernel& kernel : *kernels) {
      ++on_gpu;
      spilling += kernel.local_bytes != 0;
      registers_max = std::max(registers_max, kernel.registers);
      local_bytes_max = std::max(local_bytes_max, kernel.local_bytes);
    }
  }
};

common::Status measure(const CompileOptions& options, const Toolchain& toolchain, Costs& costs) {
  worker::KernelCache cache;
  common::SteadyClock clock;
  SmallKernels kernels;
  // The first compilation of a process or of a child pays for loading; workers do so once.
  common::Program warm_up;
  warm_up.kernels.push_back(kernels.make(options.kernels));
  common::add_nests(warm_up, toolchain.machine);
  auto warmed =
      worker::build_plan(warm_up, *toolchain.generator, *toolchain.compiler, cache, kCompileMsMax);
  if (!warmed.ok()) return warmed.error();
  for (size_t start = 0; start < options.kernels; start += options.batch) {
    common::Program program;
    size_t end = std::min(options.kernels, start + options.batch);
    for (size_t k = start; k < end; ++k) program.kernels.push_back(kernels.make(k));
    auto count = static_cast<double>(end - start);
    int64_t begin = clock.now_ns();
    common::add_nests(program, toolchain.machine);
    for (const Kernel& kernel : program.kernels) {
      auto written = toolchain.generator->generate(kernel);
      if (!written.ok()) return written.error();
    }
    double written_us = static_cast<double>(clock.now_ns() - begin) * 1e-3 / count;
    auto build = [&] {
      return worker::build_plan(program, *toolchain.generator, *toolchain.compiler, cache,
                                kCompileMsMax);
    };
    begin = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(worker::BuiltPlan built, build());
    double compiled_ms =
        static_cast<double>(clock.now_ns() - begin) * 1e-6 / count + written_us * 1e-3;
    begin = clock.now_ns();
    LFARM_ASSIGN_OR_RETURN(worker::BuiltPlan again, build());
    double cached_us = static_cast<double>(clock.now_ns() - begin) * 1e-3 / count;
    for (size_t k = start; k < end; ++k) {
      costs.written_us.push_back(written_us);
      costs.compiled_ms.push_back(compiled_ms);
      costs.cached_us.push_back(cached_us);
    }
    for (const auto& [digest, object] : built.objects) costs.add_object(*object);
    for (const worker::KernelBuild& kernel : again.kernels) {
      if (!kernel.cached) return common::internal_error("a compiled kernel was compiled again");
    }
  }
  return {};
}

std::optional<CompileOptions> parse(const std::vector<std::string>& arguments) {
  CompileOptions options;
  options.target = common::host_cpu_target().name;
  for (size_t k = 0; k < arguments.size(); k += 2) {
    if (k + 1 == arguments.size()) return std::nullopt;
    const std::string& value = arguments[k + 1];
    if (arguments[k] == "--target") {
      options.target = value;
    } else if (arguments[k] == "--kernels") {
      options.kernels = std::strtoul(value.c_str(), nullptr, 10);
    } else if (arguments[k] == "--batch") {
      options.batch = std::strtoul(value.c_str(), nullptr, 10);
    } else if (arguments[k] == "--processes") {
      options.processes = std::strtoul(value.c_str(), nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  if (options.kernels == 0 || options.batch == 0 || options.processes == 0) return std::nullopt;
  return options;
}

}  // namespace

int run_compile(const std::vector<std::string>& arguments) {
  auto options = parse(arguments);
  if (!options) {
    std::fprintf(stderr,
                 "usage: lfarm-bench compile [--target T] [--kernels N] [--batch B] "
                 "[--processes P]\n");
    return 2;
  }
  auto toolchain = find_toolchain({options->target}, options->processes);
  if (!toolchain.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", toolchain.error().message.c_str());
    return toolchain.error().code == common::Code::kUnsupported ? 3 : 1;
  }
  Costs costs;
  common::Status measured = measure(*options, *toolchain, costs);
  if (!measured.ok()) {
    std::fprintf(stderr, "lfarm-bench: %s\n", measured.error().message.c_str());
    return 1;
  }
  std::printf(
      "{\"target\":\"%s\",\"kernels\":%zu,\"batch\":%zu,\"processes\":%zu,\"ms_p50\":%.2f,\"ms_"
      "p99\":%.2f,"
      "\"text_us_p50\":%.1f,\"cached_us_p50\":%.1f,\"object_kb\":%.1f",
      options->target.c_str(), costs.compiled_ms.size(), options->batch, options->processes,
      percentile(costs.compiled_ms, 0.5), percentile(costs.compiled_ms, 0.99),
      percentile(costs.written_us, 0.5), percentile(costs.cached_us, 0.5),
      static_cast<double>(costs.object_bytes) / 1024);
  if (costs.on_gpu != 0) {
    std::printf(",\"registers_max\":%u,\"local_bytes_max\":%llu,\"spilling\":%zu",
                costs.registers_max, static_cast<unsigned long long>(costs.local_bytes_max),
                costs.spilling);
  }
  std::printf(",\"peak_mb\":%.1f}\n", peak_mb());
  return 0;
}

}  // namespace bench
