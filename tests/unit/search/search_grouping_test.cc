// If these fail, experts of a model multiply row by row at prompts, or block by block where a token
// has them all to itself.
#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/llir/grouped_form.h"
#include "search_testing.h"

namespace coordinator {
namespace {

using common::DType;
using common::Expr;
using common::GraphBuilder;
using common::InputKind;
using common::Program;
using common::ReduceOp;
using common::Shape;
using common::View;

constexpr int64_t kExperts = 64, kWidth = 1024, kResult = 512;

// Rows times the matrix of the expert that each chose.
common::Graph experts(const Expr& rows, std::vector<common::SymbolRange> symbols) {
  GraphBuilder b(std::move(symbols));
  auto i = [](int axis) { return Expr::index(axis); };
  common::NodeId x = b.input(InputKind::kUser, DType::kBfloat16, {rows, kWidth}, "x");
  common::NodeId w =
      b.input(InputKind::kWeight, DType::kBfloat16, {kExperts, kResult, kWidth}, "w");
  common::NodeId g = b.input(InputKind::kUser, DType::kInt64, {rows}, "g");
  Shape shape{rows, kResult, kWidth};
  common::NodeId own = b.gather(w, {b.view(g, View{shape, {i(0)}, {}, 0})}, shape,
                                {{0, {}}, {-1, i(1)}, {-1, i(2)}});
  common::NodeId left = b.view(b.cast(x, DType::kFloat32), View{shape, {i(0), i(2)}, {}, 0});
  common::NodeId product = b.binary(common::BinaryOp::kMul, left, b.cast(own, DType::kFloat32));
  b.output(b.cast(b.reduce(ReduceOp::kSum, product, {2}), DType::kBfloat16));
  return b.finish();
}

Program default_program(const common::Graph& graph, common::Machine machine) {
  common::SteadyClock clock;
  RegionSpace space(graph, clock, Numerics::kStrict, machine);
  return space.decode({}).program;
}

const common::Kernel* grouped_kernel(const Program& program) {
  for (const common::Kernel& kernel : program.kernels) {
    if (common::has_row_order(kernel.body)) return &kernel;
  }
  return nullptr;
}

TEST(Grouping, PromptsMultiplyByGroups) {
  Program program =
      default_program(experts(Expr::symbol(0), {{2, 32768}}), common::Machine::kGpuWarpgroups);
  const common::Kernel* kernel = grouped_kernel(program);
  ASSERT_NE(kernel, nullptr) << print(program);
  EXPECT_EQ(kernel->form, common::Template::kTile);
  // Matrices are read where they lie, and the result is rounded where it is made.
  EXPECT_EQ(kernel->body.node(kernel->body.outputs[0].node).dtype, DType::kBfloat16);
  for (const common::Buffer& buffer : program.buffers) {
    bool is_order = buffer.kind != common::BufferKind::kTemporary || buffer.shape.size() == 1;
    EXPECT_TRUE(is_order) << print(program);
  }
}

TEST(Grouping, FewRowsAndProcessorsTakeLoops) {
  common::Graph one = experts(8, {});
  EXPECT_EQ(grouped_kernel(default_program(one, common::Machine::kGpuWarpgroups)), nullptr);
  common::Graph prompt = experts(Expr::symbol(0), {{2, 32768}});
  EXPECT_EQ(grouped_kernel(default_program(prompt, common::Machine::kCpu)), nullptr);
}

// Whatever genes say, a processor gets no order of rows.
TEST(Grouping, GenesOfProcessorsHaveNoGroups) {
  common::SteadyClock clock;
  RegionSpace space(experts(Expr::symbol(0), {{2, 32768}}), clock, Numerics::kStrict,
                    common::Machine::kCpu);
  common::Random random(3);
  for (int k = 0; k < 20; ++k) {
    EXPECT_EQ(grouped_kernel(space.decode(random_genome(space, random, 6)).program), nullptr);
  }
}

}  // namespace
}  // namespace coordinator
