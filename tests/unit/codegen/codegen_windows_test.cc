// Reductions over windows of images on GPUs against the reference interpreter. If these fail, a
// pool reads beyond an image's border, or neighbouring channels are loaded one by one.
#include <limits>

#include "codegen_testing.h"
#include "common/ir/nest/transformations.h"
#include "common/lowering/loops/gpu_loops.h"

namespace testing_codegen {
namespace {

struct Pool {
  DType dtype = DType::kBfloat16;
  ReduceOp op = ReduceOp::kMax;
  int64_t size = 9, channels = 24;
  int64_t taps = 3, stride = 2, padding = 1;
};

// Images whose channels lie last, in float32 from the window on.
Graph body_of(const Pool& p) {
  GraphBuilder b;
  auto i = [](int axis) { return Expr::index(axis); };
  NodeId x = b.input(InputKind::kUser, p.dtype, {2, p.size, p.size, p.channels}, "x");
  const int64_t places = (p.size + 2 * p.padding - p.taps) / p.stride + 1;
  Expr row = i(1) * Expr(p.stride) + i(3) - Expr(p.padding);
  Expr column = i(2) * Expr(p.stride) + i(4) - Expr(p.padding);
  const bool is_max = p.op == ReduceOp::kMax;
  View windows{{2, places, places, p.taps, p.taps, p.channels},
               {i(0), row, column, i(5)},
               {{row, p.size}, {column, p.size}},
               is_max ? -std::numeric_limits<double>::infinity() : 0.5};
  NodeId y = b.reduce(p.op, b.view(b.cast(x, DType::kFloat32), windows), {3, 4});
  b.output(b.cast(y, p.dtype));
  return b.finish();
}

std::vector<Pool> pools() {
  std::vector<Pool> all;
  for (DType dtype : {DType::kBfloat16, DType::kFloat16, DType::kFloat32}) {
    for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kSum}) {
      all.push_back({dtype, op});
      all.push_back({dtype, op, 8, 16, 2, 2, 0});
      all.push_back({dtype, op, 5, 8, 3, 1, 2});
    }
  }
  return all;
}

// Each thread takes as many channels at once as 16 bytes hold and writes all taps out.
LoopNest written_out(const Graph& body) {
  LoopNest nest = plain_loops(body);
  nest.grid = nest.shared.extents.size();
  nest.threads.access = 16 / dtype_size(body.inputs[0].dtype);
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    if (body.nodes[id].op == Op::kReduce) nest.reductions.walked = {static_cast<NodeId>(id)};
  }
  return nest;
}

TEST(CodegenWindows, NeighboursBeyondABorderAreFilled) {
  Random random(91);
  KernelBatch batch;
  for (const Pool& p : pools()) {
    batch.add(Template::kLoops, {}, body_of(p),
              {random_tensor(random, p.dtype, {2, p.size, p.size, p.channels}, -9, -1)});
  }
  batch.change_nests([&](Kernel& kernel, Machine) {
    Graph body = nest_body(kernel.body, *kernel.nest);
    kernel.nest = written_out(body);
    GpuLoops trial(body, *kernel.nest);
    ASSERT_TRUE(trial.run().ok());
    ASSERT_EQ(trial.used(), *kernel.nest);
  });
  batch.compile();
  batch.check_all();
}

// Every load is one of 16 bytes, and none stands within a condition.
TEST(CodegenWindows, NeighboursAreLoadedAtOnce) {
  for (const Pool& p : pools()) {
    Graph body = canonical(body_of(p));
    const LoopNest nest = written_out(body);
    GpuLoops loops(body, nest);
    auto function = loops.run();
    ASSERT_TRUE(function.ok()) << function.error().message;
    const std::string& text = function->body.text;
    int64_t vectors = 0;
    for (size_t k = text.find("lf_load<"); k != std::string::npos;
         k = text.find("lf_load<", k + 1)) {
      ++vectors;
    }
    EXPECT_EQ(vectors, p.taps * p.taps) << text;
    EXPECT_EQ(text.find("in0["), std::string::npos) << text;
  }
}

// What a search begins with, of an image that takes memory longer than a thread waits.
TEST(CodegenWindows, PoolsAreWrittenOutByDefault) {
  Pool p{DType::kBfloat16, ReduceOp::kMax, 448, 64};
  Kernel kernel{Template::kLoops, {}, canonical(body_of(p)), {}};
  auto nest = kernel_nest(kernel, machine_of({"cuda-sm_90a"}));
  ASSERT_TRUE(nest.ok() && *nest);
  EXPECT_EQ((*nest)->threads.access, 8);
  EXPECT_EQ((*nest)->reductions.walked.size(), 1u);
}

}  // namespace
}  // namespace testing_codegen
