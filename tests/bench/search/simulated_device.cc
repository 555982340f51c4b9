#include "tests/bench/search/simulated_device.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/base/contains.h"
#include "common/base/random.h"
#include "common/cost/kernels/cost_model.h"
#include "common/ir/hlir/gemm_form.h"
#include "common/ir/llir/load_time.h"

namespace bench {
namespace {

using common::Graph;
using common::Node;
using common::NodeId;
using common::Op;
using common::Template;

// The machine. Times in nanoseconds, sizes in bytes.
constexpr double kLaunch = 320;
constexpr double kFork = 2600;  // waking the other cores
constexpr double kCores = 8;
constexpr double kParallelShare = 0.82;  // of a core's speed that each of them adds
constexpr double kCycle = 0.31;
constexpr double kLanes = 8;
constexpr double kRegisters = 16;
constexpr double kFmaLatency = 8;  // independent accumulators that hide it
constexpr double kL1 = 40e3, kL2 = 1.25e6, kL3 = 24e6;
constexpr double kL1Byte = 0.005, kL2Byte = 0.014, kL3Byte = 0.04, kDramByte = 0.11;
constexpr double kLibraryCall = 2100;
constexpr double kLibraryEfficiency = 0.88;
constexpr double kLibraryRamp = 9e5;  // multiply-adds at which it reaches half of that
constexpr double kDeviationToQuartiles = 1.349;

double byte_ns(double footprint) {
  if (footprint <= kL1) return kL1Byte;
  if (footprint <= kL2) return kL2Byte;
  return footprint <= kL3 ? kL3Byte : kDramByte;
}

double extent(const common::Expr& size, const std::vector<int64_t>& symbols) {
  return static_cast<double>(std::max<int64_t>(1, size.evaluate(symbols)));
}

double elements(const common::Shape& shape, const std::vector<int64_t>& symbols) {
  double product = 1;
  for (const common::Expr& size : shape) product *= extent(size, symbols);
  return product;
}

// Cycles of one element, without vectors.
double node_cycles(const Node& node) {
  switch (node.op) {
    case Op::kUnary:
      return common::attr<common::UnaryAttr>(node).op > common::UnaryOp::kNot ? 26 : 1;
    case Op::kBinary: {
      auto op = common::attr<common::BinaryAttr>(node).op;
      if (op == common::BinaryOp::kPow) return 70;
      return op >= common::BinaryOp::kDiv && op <= common::BinaryOp::kFmod ? 9 : 1;
    }
    case Op::kGather:
      return 7;
    case Op::kScatter:
      return 11;
    case Op::kSoftmax:
      return 33;
    case Op::kNorm:
      return 5;
    default:
      return 1;
  }
}

struct Work {
  double cycles = 0;
  double products = 0;  // multiply-adds of contractions
  double m = 1, n = 1, k = 1;
  double traffic = 0;
  double rows = 1, row = 1;
  int live = 0;        // values computed in the innermost loop
  int reductions = 0;  // over rows
  bool jumps = false;  // some view reads across the rows
};

// What a loop nest over the outputs executes when nothing is kept but what the innermost loop does
// not depend on.
class Nest {
 public:
  Nest(const Graph& body, const std::vector<int64_t>& symbols) : body_(body), symbols_(symbols) {}

  Work run() {
    for (const auto& output : body_.outputs) {
      const Node& node = body_.node(output.node);
      double whole = elements(node.shape, symbols_);
      work_.rows = std::max(work_.rows,
                            node.shape.empty() ? 1 : whole / extent(node.shape.back(), symbols_));
      work_.row = std::max(work_.row, node.shape.empty() ? 1 : extent(node.shape.back(), symbols_));
      work_.traffic += whole * common::dtype_size(node.dtype);
      visit(output.node, whole);
    }
    for (const auto& input : body_.inputs) {
      work_.traffic += elements(input.shape, symbols_) * common::dtype_size(input.dtype);
    }
    return work_;
  }

 private:
  // `times`: evaluations. A later visit pays only what it adds.
  void visit(NodeId id, double times) {
    const Node& node = body_.node(id);
    double& paid = paid_[id];
    double added = times - paid;
    if (added <= 0) return;
    paid = times;
    switch (node.op) {
      case Op::kInput:
      case Op::kConstant:
      case Op::kIota:
        return;
      case Op::kView:
        return visit_view(node, times);
      case Op::kContract:
        return visit_contract(node, times, added);
      case Op::kReduce: {
        double folded =
            elements(body_.node(node.operands[0]).shape, symbols_) / elements(node.shape, symbols_);
        work_.cycles += added * folded;
        ++work_.reductions;
        return visit(node.operands[0], times * folded);
      }
      case Op::kSoftmax:
      case Op::kNorm:
        ++work_.reductions;
        break;
      case Op::kSort:
        work_.cycles += added * 14;
        break;
      default:
        break;
    }
    ++work_.live;
    work_.cycles += added * node_cycles(node);
    for (NodeId operand : node.operands) visit(operand, times);
  }

  // A view that leaves out the last axis is hoisted out of the innermost loop; others are not.
  void visit_view(const Node& node, double times) {
    const common::View& view = common::attr<common::ViewAttr>(node).view;
    bool last = false;
    for (size_t k = 0; k < view.index.size(); ++k) {
      view.index[k].visit_vars([&](common::Var v) {
        if (v.kind != common::Var::Kind::kIndex) return;
        if (v.id + 1 != static_cast<int>(node.shape.size())) return;
        last = true;
        work_.jumps = work_.jumps || k + 1 != view.index.size();
      });
    }
    double inner = node.shape.empty() ? 1 : extent(node.shape.back(), symbols_);
    work_.cycles += 0.15 * static_cast<double>(view.valid.size()) * times;
    visit(node.operands[0], last ? times : std::max(1.0, times / inner));
  }

  void visit_contract(const Node& node, double times, double added) {
    const auto& c = common::attr<common::ContractAttr>(node);
    const Node& a = body_.node(node.operands[0]);
    const Node& b = body_.node(node.operands[1]);
    double summed = 1;
    for (size_t k = 0; k < c.a.size(); ++k) {
      if (!common::contains(c.out, c.a[k])) {
        summed *= extent(a.shape[k], symbols_);
      }
    }
    work_.products += added * summed;
    work_.k = summed;
    work_.n = node.shape.empty() ? 1 : extent(node.shape.back(), symbols_);
    work_.m = elements(node.shape, symbols_) / work_.n;
    // Packing evaluates each operand's element once for every block of the other that passes.
    visit(node.operands[0], std::max(times > 0 ? 1.0 : 0.0, elements(a.shape, symbols_)));
    visit(node.operands[1], elements(b.shape, symbols_));
  }

  const Graph& body_;
  const std::vector<int64_t>& symbols_;
  Work work_;
  std::map<NodeId, double> paid_;
};

double loops_efficiency(const common::Kernel& kernel, const Work& work) {
  auto parameter = [&](std::string_view name) {
    return static_cast<double>(common::schedule_value(kernel.schedule, kernel.form, name));
  };
  double width = parameter("vector") == 0 ? kLanes : parameter("vector");
  double speed = std::min(width, kLanes);
  if (parameter("vector") == 0) speed *= work.reductions > 0 ? 0.6 : 0.9;  // a compiler's caution
  double pressure = static_cast<double>(work.live) * width / kLanes;
  if (pressure > kRegisters) speed *= std::max(0.4, kRegisters / pressure);
  if (work.jumps) speed = 1 + (speed - 1) * 0.35;
  double unroll = parameter("unroll");
  if (work.reductions > 0) {
    double hidden = std::min(1.0, (0.8 + unroll * width / kLanes) / 4.2);
    speed *= 0.45 + 0.55 * hidden;
  } else {
    speed *= 1 + 0.05 * std::log2(unroll);
  }
  if (unroll * static_cast<double>(work.live) > 72) speed *= 0.72;  // beyond the decoded cache
  double steps = unroll * width;
  speed /= std::ceil(work.row / steps) * steps / work.row;
  if (work.reductions > 1) {
    // A row buffer saves the second evaluation and costs its own stores.
    speed *= parameter("stage") == 1 ? (work.row * 4 < kL1 ? 1.35 : 0.95) : 1;
  } else if (parameter("stage") == 1 && work.reductions == 0 && work.live > 3) {
    speed *= 0.97;
  }
  return std::max(speed, 0.2);
}

// Nanoseconds of a tiled contraction's products on one core.
double tile_ns(const common::Kernel& kernel, const Work& work) {
  auto parameter = [&](std::string_view name, double otherwise) {
    auto value = static_cast<double>(common::schedule_value(kernel.schedule, kernel.form, name));
    return value == 0 ? otherwise : value;
  };
  double mr = parameter("mr", work.m < 4 ? 1 : 4);
  double nr = parameter("nr", work.n < 16 ? 8 : 16);
  double kc = std::min(parameter("kc", 128), work.k);
  double mc = std::min(std::max(parameter("mc", 64), mr), std::ceil(work.m / mr) * mr);
  double nc = std::min(std::max(parameter("nc", 128), nr), std::ceil(work.n / nr) * nr);
  double accumulators = mr * nr / kLanes;
  double per_cycle = 2 * kLanes * std::min(1.0, accumulators / kFmaLatency);
  double wanted = accumulators + nr / kLanes + 1;
  if (wanted > kRegisters) per_cycle *= std::pow(kRegisters / wanted, 1.6);
  double loads = 1 / mr + kLanes / nr;  // vector loads and broadcasts per multiply-add
  per_cycle /= std::max(1.0, loads);
  if (kc * nr * 4 > kL1 * 0.6) per_cycle *= 0.78;
  if (mc * kc * 4 > kL2 * 0.5) per_cycle *= 0.83;
  double waste = std::ceil(work.m / mr) * mr / work.m * std::ceil(work.n / nr) * nr / work.n;
  double compute = work.products * waste / per_cycle * kCycle;
  // Each block of k passes the accumulators through memory; each block of rows reads B once more.
  double passes = std::ceil(work.k / kc);
  double batch = work.products / (work.m * work.n * work.k);
  double spill = batch * work.m * work.n * 8 * (passes - 1) * byte_ns(mc * nc * 4);
  double repacking =
      batch * (work.n * work.k * std::ceil(work.m / mc) + work.m * work.k * std::ceil(work.n / nc));
  double blocks = batch * passes * std::ceil(work.m / mc) * std::ceil(work.n / nc);
  return compute + spill + repacking * 0.14 + blocks * 38;
}

double model_ns(const common::Kernel& kernel, const std::vector<int64_t>& symbols) {
  Work work = Nest(kernel.body, symbols).run();
  double memory = work.traffic * byte_ns(work.traffic);
  double compute = 0;
  double launch = kLaunch;
  double units = std::max(work.rows, work.m);
  if (kernel.form == Template::kGemm) {
    launch += kLibraryCall;
    double share = kLibraryEfficiency * work.products / (work.products + kLibraryRamp);
    compute = work.products / (2 * kLanes * std::max(share, 1e-4)) * kCycle;
  } else if (kernel.form == Template::kTile) {
    compute = tile_ns(kernel, work) + work.cycles / 3 * kCycle;
  } else {
    double speed = kernel.form == Template::kLoops ? loops_efficiency(kernel, work) : 1;
    compute = (work.cycles / speed + work.products / 1.5) * kCycle;
  }
  double cores = std::min(kCores, units);
  double shared = kFork + compute / (1 + (cores - 1) * kParallelShare);
  compute = std::min(compute, shared);
  return launch + std::max(compute, memory) + 0.25 * std::min(compute, memory);
}

}  // namespace

double SimulatedDevice::kernel_ns(const common::Digest& fingerprint, const common::Kernel& kernel,
                                  const std::vector<int64_t>& symbols) {
  auto [it, is_new] = known_.emplace(fingerprint, 0);
  if (is_new) it->second = model_ns(kernel, symbols);
  return it->second;
}

double SimulatedDevice::true_ns(const common::Program& program, const std::vector<int64_t>& sizes) {
  std::vector<double> times(program.kernels.size(), -1);
  double total = 0;
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const common::Call& call = program.calls[c];
    if (at_load[c]) continue;
    auto k = static_cast<size_t>(call.kernel);
    if (times[k] < 0) {
      times[k] = kernel_ns(common::kernel_fingerprint(program.kernels[k]), program.kernels[k],
                           common::call_symbols(call, sizes));
    }
    total += times[k];
  }
  return total;
}

coordinator::CandidateResult SimulatedDevice::measure(const coordinator::CandidateTask& task) {
  const common::Program& program = task.payload.program;
  const std::vector<int64_t>& sizes = task.payload.verify.sizes[0];
  coordinator::CandidateResult result;
  result.worker = "simulated";
  result.report.kernel_ns.assign(program.kernels.size(), 0);
  result.report.kernels.resize(program.kernels.size());
  result.report.runs = task.payload.measure.repetitions;
  double total = 0, variance = 0;
  std::vector<char> at_load = common::load_time_calls(program);
  for (size_t c = 0; c < program.calls.size(); ++c) {
    const common::Call& call = program.calls[c];
    auto k = static_cast<size_t>(call.kernel);
    common::Digest fingerprint = common::kernel_fingerprint(program.kernels[k]);
    result.report.kernels[k].fingerprint = fingerprint;
    if (at_load[c]) continue;
    double ns = kernel_ns(fingerprint, program.kernels[k], common::call_symbols(call, sizes));
    uint64_t draw = common::combine64(noise_.seed, fingerprint.prefix64());
    if (noise_.fresh) draw = common::combine64(draw, task.id);
    common::Random random(draw);
    // The sum of three uniform numbers is nearly normal; its standard deviation is 1/2.
    double error = (random.unit() + random.unit() + random.unit() - 1.5) * 2;
    double spread = noise_.spread;
    if (noise_.fresh) spread *= std::sqrt(10.0 / task.payload.measure.repetitions);
    ns *= std::exp(spread * error);
    result.report.kernel_ns[k] = static_cast<uint64_t>(std::llround(ns));
    total += static_cast<double>(result.report.kernel_ns[k]);
    if (noise_.fresh) variance += spread * ns * spread * ns;
  }
  result.report.total_ns = static_cast<uint64_t>(std::llround(total));
  // Of single runs: the noise is that of their mean.
  result.report.spread_ns = static_cast<uint64_t>(
      std::llround(kDeviationToQuartiles * std::sqrt(variance * result.report.runs)));
  return result;
}

}  // namespace bench
