// Generated kernels that copy by tensor maps, in plans on the emulated GPU: if these fail, a run
// reads its operands by the maps of other sizes or other memory, or a temporary before it is
// written.
#include <gtest/gtest.h>

#include <vector>

#include "common/cuda/nvrtc.h"
#include "common/ir/hlir/builder.h"
#include "common/runtime/device/cuda_device.h"
#include "common/runtime/executor/executor.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "tests/unit/runtime/runtime_testing.h"
#include "worker/codegen/cuda/cuda.h"

namespace common {
namespace {

constexpr int64_t kWidth = 72;
constexpr DType kHalf = DType::kBfloat16;

// x (s0 x kWidth) times the transpose of w (kWidth x kWidth).
Kernel product() {
  GraphBuilder b({{1, 1000}});
  NodeId x = b.input(InputKind::kUser, kHalf, {Expr::symbol(0), kWidth}, "x");
  NodeId w = b.input(InputKind::kUser, kHalf, {kWidth, kWidth}, "w");
  NodeId sum = b.raw({Op::kContract,
                      DType::kFloat32,
                      {Expr::symbol(0), kWidth},
                      {x, w},
                      ContractAttr{{0, 2}, {1, 2}, {0, 1}}});
  b.output(b.cast(sum, kHalf));
  return {Template::kTile, {{"clusters", 2}, {"warpgroups", 64064}}, b.finish(), {}};
}

// Small integers, so that sums of products are exact.
HostTensor numbers(std::vector<int64_t> sizes, int64_t step) {
  HostTensor x = HostTensor::zeros(kHalf, std::move(sizes)).value();
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i * step % 3 - 1));
  return x;
}

HostTensor times(const HostTensor& x, const HostTensor& w) {
  HostTensor y = HostTensor::zeros(kHalf, x.sizes()).value();
  for (int64_t row = 0; row < x.sizes()[0]; ++row) {
    for (int64_t column = 0; column < kWidth; ++column) {
      double sum = 0;
      for (int64_t k = 0; k < kWidth; ++k)
        sum += x.get(row * kWidth + k) * w.get(column * kWidth + k);
      y.set(row * kWidth + column, sum);
    }
  }
  return y;
}

TEST(CudaBoxes, ProductsOfProductsAreRightAtAllSizes) {
  auto device = open_cuda_device();
  ASSERT_TRUE(device.ok()) << device.error().message;
  worker::CudaCodeGenerator generator((*device)->target());
  Kernel computed = product();
  const Target target = (*device)->target();
  ASSERT_TRUE(add_nest(computed, {machine_of(target), target.name, ""}).ok());
  auto source = generator.generate(computed);
  ASSERT_TRUE(source.ok()) << source.error().message;
  ASSERT_EQ(source->entry.maps.size(), 2u);
  auto compiled = Nvrtc::open().value()->compile(generator.preamble() + source->text, "sm_90a", {});
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;

  PlanMaker m;
  m.plan.key.target = (*device)->target();
  m.plan.symbols = {{1, 1000}};
  Shape rows{Expr::symbol(0), kWidth}, square{kWidth, kWidth};
  int x = m.input(rows, InputKind::kUser, kHalf), w = m.input(square, InputKind::kUser, kHalf);
  int between = m.temporary(rows, kHalf), out = m.output(rows, kHalf);
  int kernel = m.kernel(source->entry.name);
  m.plan.kernels[static_cast<size_t>(kernel)].entry = source->entry;
  m.call(kernel, {x, w}, {between}, {Expr::symbol(0)});
  m.call(kernel, {between, w}, {out}, {Expr::symbol(0)});
  auto objects = [&](const Digest&) { return Result<ByteView>(ByteView(compiled->cubin)); };
  auto executor = Executor::load(m.finish(compiled->cubin), objects, **device, {});
  ASSERT_TRUE(executor.ok()) << executor.error().message;
  HostTensor weights = numbers({kWidth, kWidth}, 7);
  // From the third run of a size on, rows of launches are replayed.
  for (int64_t n : {150, 150, 150, 150, 1, 64, 64, 64, 150}) {
    HostTensor in = numbers({n, kWidth}, 5 + n % 2);
    HostTensor expected = times(times(in, weights), weights);
    auto result =
        (*executor)->run(std::vector<HostTensor>{in.clone().value(), weights.clone().value()});
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (int64_t i = 0; i < expected.elements(); ++i) {
      ASSERT_EQ(result->user[0].get(i), expected.get(i)) << i << " of " << n << " rows";
    }
  }
}

}  // namespace
}  // namespace common
