// If these fail, the loops that a tiling stands for compute something else than the kernel, or do
// so whatever the tiling's sizes are.
#include "common/schedule/kernels/looped_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/plan/plan.h"
#include "common/runtime/interpreter/nest_interpreter.h"
#include "common/schedule/kernels/kernel_tiling.h"

namespace common {
namespace {

constexpr int64_t kSymbol = 37;  // what s0 is
constexpr InterpretOptions kWide{.precision = Precision::kWide};

NestMachine machine_for(const char* name) {
  const Target target{name};
  return {machine_of(target), target.name, {}};
}

Kernel kernel_of(Template form, GraphBuilder& b) { return {form, {}, canonical(b.finish()), {}}; }

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "");
}

Kernel scan(ScanOp op, DType dtype, Shape shape, int axis) {
  GraphBuilder b({{1, 4096}});
  NodeId x = input(b, dtype, std::move(shape));
  if (is_float(dtype)) x = b.unary(UnaryOp::kNeg, x);
  b.output(b.scan(op, x, axis));
  return kernel_of(Template::kScan, b);
}

Kernel sort(DType dtype, Shape shape, int axis, bool descends, int64_t count = 0) {
  GraphBuilder b({{1, 4096}});
  b.output(b.sort_indices(input(b, dtype, std::move(shape)), axis, descends, count));
  return kernel_of(Template::kSort, b);
}

struct Signal {
  Shape shape;
  int64_t count = 0;  // of frequencies
  bool is_complex = false, is_inverse = false;
  DType dtype = DType::kFloat32;
};

// The sum of both parts, or one of them.
Kernel transform(const Signal& s, bool both = true) {
  GraphBuilder b({{1, 4096}});
  const NodeId re = b.unary(UnaryOp::kAbs, input(b, s.dtype, s.shape));
  std::optional<NodeId> im;
  if (s.is_complex) im = input(b, s.dtype, s.shape);
  const NodeId imaginary = b.fourier(re, im, {true, s.is_inverse, s.count});
  if (both) b.output(b.fourier(re, im, {false, s.is_inverse, s.count}));
  b.output(b.unary(UnaryOp::kNeg, imaginary));
  return kernel_of(Template::kFourier, b);
}

NodeId widened(GraphBuilder& b, NodeId x) {
  return is_half(b.dtype(x)) ? b.cast(x, DType::kFloat32) : x;
}

// Two products of bfloat16 that meet where both are rounded.
Kernel pair(const Expr& rows) {
  constexpr DType kHalf = DType::kBfloat16;
  GraphBuilder b({{1, 4096}});
  const auto product = [&](int64_t depth) {
    const NodeId x = widened(b, input(b, kHalf, {rows, depth}));
    const NodeId w = widened(b, input(b, kHalf, {72, depth}));
    const NodeId sums = b.raw(
        {Op::kContract, DType::kFloat32, {rows, 72}, {x, w}, ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
    return b.cast(b.cast(sums, kHalf), DType::kFloat32);
  };
  const NodeId first = b.unary(UnaryOp::kTanh, product(64));
  b.output(b.cast(b.binary(BinaryOp::kMul, first, product(192)), kHalf));
  return kernel_of(Template::kTile, b);
}

constexpr int64_t kMatrices = 5;

// Inputs: rows, matrices, each row's matrix, and the order of rows.
Kernel groups(DType dtype, const Expr& rows) {
  GraphBuilder b({{1, 4096}});
  const Expr n = 40, k = 72;
  const NodeId x = widened(b, input(b, dtype, {rows, k}));
  const NodeId w = input(b, dtype, {kMatrices, n, k});
  const NodeId own = input(b, DType::kInt64, {rows}), order = input(b, DType::kInt64, {rows});
  const NodeId spread = b.view(own, {{rows, n, k}, {Expr::index(0)}, {}, 0});
  const NodeId matrices =
      b.gather(w, {spread}, {rows, n, k}, {{0, {}}, {-1, Expr::index(1)}, {-1, Expr::index(2)}});
  const NodeId y = b.raw({Op::kContract,
                          DType::kFloat32,
                          {rows, n},
                          {x, widened(b, matrices), order},
                          ContractAttr{{0, 2}, {0, 1, 2}, {0, 1}}});
  b.output(b.unary(UnaryOp::kAbs, y));
  return kernel_of(Template::kTile, b);
}

// Few values, so that some are equal, and a NaN among floats.
std::vector<HostTensor> inputs_of(const Graph& body) {
  std::vector<HostTensor> inputs;
  const std::vector<int64_t> symbols(body.symbols.size(), kSymbol);
  for (const GraphInput& each : body.inputs) {
    inputs.push_back(HostTensor::zeros(each.dtype, evaluate_shape(each.shape, symbols)).value());
    HostTensor& x = inputs.back();
    for (int64_t i = 0; i < x.elements(); ++i) {
      const int64_t value = (i * 7919 + i / 13) % 251 - 125;
      is_float(each.dtype) ? x.set(i, static_cast<double>(value) / 64) : x.set_int(i, value);
    }
  }
  return inputs;
}

bool is_equal(const HostTensor& a, const HostTensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.get(i), y = b.get(i);
    if (std::isnan(x) != std::isnan(y)) return false;
    if (!std::isnan(x) && std::abs(x - y) > 1e-9 * (1 + std::abs(y))) return false;
  }
  return true;
}

// Empty where the loops compute the kernel.
std::string difference(const Kernel& kernel, const NestMachine& machine,
                       const std::vector<HostTensor>& inputs) {
  auto looped = looped_kernel(kernel, machine);
  if (!looped.ok()) return looped.error().message;
  auto got = interpret_loops(*looped, inputs, kWide);
  if (!got.ok()) return got.error().message;
  auto expected = interpret(kernel.body, inputs, kWide);
  if (!expected.ok()) return expected.error().message;
  for (size_t k = 0; k < expected->size(); ++k) {
    if (!is_equal((*got)[k], (*expected)[k])) return "values differ by " + looped->text;
  }
  return "";
}

void expect_loops(Kernel kernel, const NestMachine& machine, std::string_view form,
                  const std::vector<HostTensor>& inputs) {
  if (!kernel.tiling) kernel.tiling = kernel_tiling(kernel, machine);
  ASSERT_TRUE(kernel.tiling);
  SCOPED_TRACE(print(*kernel.tiling));
  EXPECT_EQ(kernel.tiling->form, form);
  EXPECT_EQ(difference(kernel, machine, inputs), "");
}
void expect_loops(const Kernel& kernel, const NestMachine& machine, std::string_view form) {
  expect_loops(kernel, machine, form, inputs_of(kernel.body));
}

// With one size of the tiling changed.
std::string difference_with(Kernel kernel, const NestMachine& machine, const std::string& size,
                            const Expr& value) {
  kernel.tiling = kernel_tiling(kernel, machine);
  if (!kernel.tiling || !kernel.tiling->sizes.count(size)) return "";
  kernel.tiling->sizes[size] = value;
  return difference(kernel, machine, inputs_of(kernel.body));
}

const Expr& symbol() {
  static const Expr kExpr = Expr::symbol(0);
  return kExpr;
}

TEST(LoopedKernel, Scans) {
  for (const char* target : {"cuda-sm_80", "cuda-sm_90a"}) {
    const NestMachine machine = machine_for(target);
    for (ScanOp op :
         {ScanOp::kSum, ScanOp::kProd, ScanOp::kMax, ScanOp::kMin, ScanOp::kLogSumExp}) {
      SCOPED_TRACE(scan_name(op));
      expect_loops(scan(op, DType::kFloat32, {3, symbol() * 19}, 1), machine, "scan");
      expect_loops(scan(op, DType::kFloat32, {5, 21, 7}, 1), machine, "scan");
      expect_loops(scan(op, DType::kFloat32, {symbol(), 700}, 0), machine, "scan");
      if (op == ScanOp::kLogSumExp) continue;
      for (DType dtype : {DType::kInt64, DType::kInt32, DType::kUint8}) {
        expect_loops(scan(op, dtype, {2, 300}, 1), machine, "scan");
      }
    }
    expect_loops(scan(ScanOp::kSum, DType::kFloat32, {5}, 0), machine, "scan");
  }
}

TEST(LoopedKernel, ScansNeedWholeWarps) {
  const NestMachine machine = machine_for("cuda-sm_90a");
  const Kernel kernel = scan(ScanOp::kSum, DType::kFloat32, {3, 700}, 1);
  EXPECT_EQ(difference_with(kernel, machine, "threads", 64), "");
  EXPECT_EQ(difference_with(kernel, machine, "threads", 100), "loops visit 2016 of 2100 elements");
  EXPECT_NE(difference_with(kernel, machine, "threads", 16), "");
  EXPECT_NE(difference_with(kernel, machine, "threads", 0), "");
}

TEST(LoopedKernel, Sorts) {
  std::set<std::string> methods;
  for (const char* target : {"cuda-sm_80", "cuda-sm_90a"}) {
    const NestMachine machine = machine_for(target);
    for (bool descends : {false, true}) {
      for (const Kernel& kernel :
           {sort(DType::kFloat32, {3, 100}, 1, descends), sort(DType::kInt64, {3, 77}, 1, descends),
            sort(DType::kFloat64, {50, 3}, 0, descends),
            sort(DType::kBfloat16, {2, symbol() * 5}, 1, descends),
            sort(DType::kFloat32, {2, 300, 2}, 1, descends),
            sort(DType::kInt32, {5000}, 0, descends), sort(DType::kInt64, {2, 2100}, 1, descends),
            sort(DType::kInt8, {2, 1500}, 1, descends), sort(DType::kUint8, {1500, 2}, 0, descends),
            sort(DType::kBool, {300}, 0, descends)}) {
        SCOPED_TRACE(print(*kernel_tiling(kernel, machine)));
        methods.insert(kernel_tiling(kernel, machine)->sizes.at("method").text());
        expect_loops(kernel, machine, "sort");
      }
    }
  }
  EXPECT_EQ(methods, (std::set<std::string>{"0", "1", "2", "3"}));
}

TEST(LoopedKernel, SortsOfFirstElements) {
  std::set<std::string> methods;
  const NestMachine machine = machine_for("cuda-sm_90a");
  for (const Kernel& kernel :
       {sort(DType::kFloat32, {3, 100}, 1, true, 7), sort(DType::kFloat64, {50, 3}, 0, false, 50),
        sort(DType::kBfloat16, {2, symbol() * 5}, 1, true, 1),
        sort(DType::kFloat32, {2, 300, 2}, 1, false, 299), sort(DType::kInt32, {5000}, 0, true, 40),
        sort(DType::kInt8, {2, 1500}, 1, false, 8), sort(DType::kUint8, {1500, 2}, 0, true, 3)}) {
    SCOPED_TRACE(print(*kernel_tiling(kernel, machine)));
    methods.insert(kernel_tiling(kernel, machine)->sizes.at("method").text());
    expect_loops(kernel, machine, "sort");
  }
  EXPECT_EQ(methods, (std::set<std::string>{"0", "1", "2", "3"}));
}

TEST(LoopedKernel, SortsOrderNansAndKeysBeyondAnItem) {
  const NestMachine machine = machine_for("cuda-sm_90a");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (bool descends : {false, true}) {
    Kernel kernel = sort(DType::kFloat32, {200}, 0, descends);
    std::vector<HostTensor> inputs = inputs_of(kernel.body);
    for (int64_t i : {3, 70, 199}) inputs[0].set(i, std::nan(""));
    for (int64_t i : {4, 90}) inputs[0].set(i, kInfinity);
    inputs[0].set(11, -kInfinity);
    expect_loops(kernel, machine, "sort", inputs);

    kernel = sort(DType::kInt64, {90}, 0, descends);
    inputs = inputs_of(kernel.body);
    inputs[0].set_int(5, int64_t{1} << 40);
    inputs[0].set_int(6, -(int64_t{3} << 50) + 2);
    kernel.tiling = kernel_tiling(kernel, machine);
    expect_loops(kernel, machine, "sort", inputs);
    kernel.tiling->sizes["packed"] = 1;
    EXPECT_NE(difference(kernel, machine, inputs), "");
  }
}

TEST(LoopedKernel, SortsWithOtherSizes) {
  const NestMachine machine = machine_for("cuda-sm_90a");
  const Kernel few = sort(DType::kFloat32, {2, 100}, 1, false);
  EXPECT_EQ(difference_with(few, machine, "threads", 256), "");
  EXPECT_NE(difference_with(few, machine, "places", 96), "");
  EXPECT_NE(difference_with(few, machine, "places", 64), "");
  EXPECT_NE(difference_with(few, machine, "method", 4), "");
  const Kernel many = sort(DType::kFloat32, {2, 1000}, 1, false);
  EXPECT_EQ(difference_with(many, machine, "threads", 256), "");
  EXPECT_EQ(difference_with(many, machine, "places", 2048), "");
  EXPECT_NE(difference_with(many, machine, "places", 512), "");
  EXPECT_NE(difference_with(many, machine, "threads", 384), "");
  const Kernel bytes = sort(DType::kInt8, {2, 1000}, 1, false);
  EXPECT_NE(difference_with(bytes, machine, "places", 4096), "");
  EXPECT_NE(difference_with(bytes, machine, "threads", 1000), "");
  EXPECT_NE(difference_with(bytes, machine, "threads", 0), "");
}

// Rows that no vector divides, with radices of all kinds.
TEST(LoopedKernel, Transforms) {
  for (const char* target : {"cpu-x86_64-avx2", "cpu-x86_64-avx512"}) {
    const NestMachine machine = machine_for(target);
    for (bool is_inverse : {false, true}) {
      for (int64_t points : {1, 2, 6, 8, 15, 16, 49, 64, 210, 240, 360}) {
        SCOPED_TRACE(points);
        const Signal real{{3, symbol(), points}, points / 2 + 1, false, is_inverse};
        expect_loops(transform(real), machine, "fourier");
        expect_loops(transform(real, false), machine, "fourier");
        Signal all = real;
        all.count = points;
        all.dtype = DType::kFloat64;
        expect_loops(transform(all), machine, "fourier");
        all.is_complex = true;
        expect_loops(transform(all), machine, "fourier");
      }
      expect_loops(transform({{24}, 5, true, is_inverse}), machine, "fourier");
    }
  }
}

TEST(LoopedKernel, TransformsNeedAllPasses) {
  const NestMachine machine = machine_for("cpu-x86_64-avx512");
  const Kernel real = transform({{5, 480}, 241});  // of 240 complex points: 4, 4, 5, 3
  EXPECT_EQ(difference_with(real, machine, "rows", 4), "");
  for (const char* radix : {"fours", "fives", "threes"}) {
    EXPECT_NE(difference_with(real, machine, radix, 0), "") << radix;
    EXPECT_NE(difference_with(real, machine, radix, 3), "") << radix;
  }
  for (const char* radix : {"eights", "twos", "sevens"}) {
    EXPECT_NE(difference_with(real, machine, radix, 1), "") << radix;
  }
  EXPECT_NE(difference_with(real, machine, "rows", 0), "");
}

TEST(LoopedKernel, PairsOfProducts) {
  const NestMachine machine = machine_for("cuda-sm_90a");
  for (const Expr& rows : {Expr(150), symbol() * 3}) {
    Kernel kernel = pair(rows);
    expect_loops(kernel, machine, "warpgroup_tile");
    kernel.tiling = kernel_tiling(kernel, machine);
    auto looped = looped_kernel(kernel, machine);
    ASSERT_TRUE(looped.ok());
    EXPECT_EQ(looped->nodes.size(), 2u);
    EXPECT_NE(looped->text.find("; 2 products"), std::string::npos) << looped->text;
  }
  EXPECT_EQ(difference_with(pair(150), machine, "columns", 64), "");
}

// Rows in the order of their matrices, some of which are given beyond those that there are.
TEST(LoopedKernel, GroupsOfRows) {
  std::set<std::string> forms;
  for (const char* target : {"cuda-sm_80", "cuda-sm_90a"}) {
    const NestMachine machine = machine_for(target);
    for (DType dtype : {DType::kFloat32, DType::kBfloat16}) {
      for (const Expr& rows : {Expr(1), Expr(53), symbol() * 9}) {
        for (const Schedule& schedule : {Schedule{}, Schedule{{"warpgroups", 128128}}}) {
          Kernel kernel = groups(dtype, rows);
          kernel.schedule = schedule;
          kernel.tiling = kernel_tiling(kernel, machine);
          ASSERT_TRUE(kernel.tiling);
          SCOPED_TRACE(print(*kernel.tiling));
          forms.insert(kernel.tiling->form);
          std::vector<HostTensor> inputs = inputs_of(kernel.body);
          const int64_t count = inputs[3].elements();
          std::vector<std::pair<int64_t, int64_t>> order;
          for (int64_t r = 0; r < count; ++r) {
            const int64_t own = r * 5 % 7 - 1;
            inputs[2].set_int(r, own);
            order.emplace_back(std::clamp<int64_t>(own, 0, kMatrices - 1), r);
          }
          std::sort(order.begin(), order.end());
          for (int64_t k = 0; k < count; ++k) {
            inputs[3].set_int(k, order[static_cast<size_t>(k)].second);
          }
          EXPECT_EQ(difference(kernel, machine, inputs), "");
          if (count < 2) continue;
          inputs[3].set_int(1, inputs[3].get_int(0));
          EXPECT_NE(difference(kernel, machine, inputs).find("twice"), std::string::npos);
        }
      }
    }
  }
  EXPECT_EQ(forms, (std::set<std::string>{"mma_tile", "thread_tile", "warpgroup_tile"}));
}

TEST(LoopedKernel, OnlyTilingsHaveLoops) {
  const NestMachine machine = machine_for("cuda-sm_90a");
  Kernel kernel = pair(150);
  EXPECT_EQ(looped_kernel(kernel, machine).error().code, Code::kUnsupported);
  kernel.tiling = Tiling{"unheard_of", {}};
  EXPECT_EQ(looped_kernel(kernel, machine).error().code, Code::kInvalidInput);
}

}  // namespace
}  // namespace common
