// What a kernel must read and write: predictions and lfarm-bench gpu-static rest on it.
#include "common/ir/llir/body_traffic.h"

#include <gtest/gtest.h>

#include "common/ir/hlir/builder.h"

namespace common {
namespace {

TEST(BodyTraffic, OfAGatheredTableTheGatheredRowsCount) {
  GraphBuilder b;
  NodeId table = b.input(InputKind::kUser, DType::kBfloat16, {1000, 64}, "");
  NodeId ids = b.input(InputKind::kUser, DType::kInt64, {4}, "");
  NodeId spread = b.view(ids, View{{4, 64}, {Expr::index(0)}, {}, 0});
  b.output(b.gather(table, {spread}, {4, 64}, {{0, 0}, {-1, Expr::index(1)}}));
  Graph body = b.finish();
  EXPECT_EQ(bytes_read(body, {}), (std::vector<double>{4 * 64 * 2, 4 * 8}));
  EXPECT_EQ(bytes_written(body, {}), std::vector<double>{4 * 64 * 2});
}

TEST(BodyTraffic, ExpertsOfARoutedProductAreTheChosenOnes) {
  GraphBuilder b;
  NodeId experts = b.input(InputKind::kUser, DType::kBfloat16, {128, 32, 64}, "");
  NodeId chosen = b.input(InputKind::kUser, DType::kInt64, {8}, "");
  NodeId wide = b.cast(experts, DType::kFloat32);
  NodeId spread = b.view(chosen, View{{8, 32, 64}, {Expr::index(0)}, {}, 0});
  NodeId rows =
      b.gather(wide, {spread}, {8, 32, 64}, {{0, 0}, {-1, Expr::index(1)}, {-1, Expr::index(2)}});
  b.output(b.reduce(ReduceOp::kSum, rows, {2}));
  EXPECT_EQ(bytes_read(b.finish(), {}), (std::vector<double>{8 * 32 * 64 * 2, 64}));
}

TEST(BodyTraffic, AScatterWritesWhatItIsGiven) {
  GraphBuilder b;
  NodeId cache = b.input(InputKind::kUser, DType::kFloat32, {1024, 128}, "");
  NodeId row = b.input(InputKind::kUser, DType::kFloat32, {1, 128}, "");
  NodeId at = b.input(InputKind::kUser, DType::kInt64, {1}, "");
  NodeId spread = b.view(at, View{{1, 128}, {Expr::index(0)}, {}, 0});
  b.output(b.scatter(ScatterMode::kAssign, cache, row, {spread}, {{0, 0}, {-1, Expr::index(1)}}));
  Graph body = b.finish();
  EXPECT_EQ(bytes_read(body, {}), (std::vector<double>{0, 128 * 4, 8}));
  EXPECT_EQ(bytes_written(body, {}), std::vector<double>{128 * 4});
}

TEST(BodyTraffic, SizesAreTheCallsOwn) {
  GraphBuilder b;
  Expr rows = b.new_symbol({1, 4096});
  NodeId x = b.input(InputKind::kUser, DType::kFloat32, {rows, 8}, "");
  b.output(b.unary(UnaryOp::kExp, x));
  Graph body = b.finish();
  EXPECT_EQ(bytes_read(body, {100}), std::vector<double>{3200});
  EXPECT_EQ(bytes_written(body, {7}), std::vector<double>{224});
}

}  // namespace
}  // namespace common
