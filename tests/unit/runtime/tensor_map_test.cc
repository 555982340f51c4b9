// Views that a copy engine reads: if these fail, a plan from outside could make a GPU read beyond
// its buffers, or a worker's cache could give a kernel other maps than it was compiled for.
#include "common/plan/tensor_map.h"

#include <gtest/gtest.h>

#include <vector>

namespace common {
namespace {

// Rows of 64 of `s0` rows that lie 128 apart, from element 256 on.
TensorMap rows_of_64() {
  return {1, DType::kBfloat16, 128, 256, {{64, 1, 64}, {Expr::symbol(0), 128, 32}}};
}

TEST(TensorMap, IsReadBackAsPrinted) {
  TensorMap map = rows_of_64();
  map.dimensions.push_back({min(Expr::symbol(1), 7), 2 * Expr::symbol(0) + 8, 1});
  auto read = parse_tensor_map(print(map));
  ASSERT_TRUE(read.has_value()) << print(map);
  EXPECT_EQ(*read, map);
  for (const char* text : {"", "1|bf16|128|0", "1|s64|128|0|64:64:1", "1|bf16|128|0|64:64",
                           "1|bf16|x|0|64:64:1", "1|bf16|128|0|64:64:1:1"}) {
    EXPECT_FALSE(parse_tensor_map(text).has_value()) << text;
  }
}

TEST(TensorMap, WhatNoDeviceEncodesIsRefused) {
  EXPECT_TRUE(verify(rows_of_64(), 2, 1).ok());
  EXPECT_FALSE(verify(rows_of_64(), 1, 1).ok()) << "no such input";
  EXPECT_FALSE(verify(rows_of_64(), 2, 0).ok()) << "no such symbol";
  auto refuses = [](auto change) {
    TensorMap map = rows_of_64();
    change(map);
    return !verify(map, 2, 1).ok();
  };
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dtype = DType::kInt64; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.swizzle_bytes = 48; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.swizzle_bytes = 64; })) << "rows of 128 bytes";
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions.clear(); }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions.resize(6, {1, 8, 1}); }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[0].stride = 2; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[0].box = 4; })) << "8 bytes";
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].box = 257; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].box = 0; }));
}

TEST(TensorMap, StaysWithinItsInput) {
  const std::vector<int64_t> ten = {10};
  const int64_t last = 256 + 9 * 128 + 63;
  auto sizes = evaluate(rows_of_64(), ten, last + 1);
  ASSERT_TRUE(sizes.ok()) << sizes.error().message;
  EXPECT_EQ(sizes->dimensions[1], (TensorMapSizes::Dimension{10, 128, 32}));
  EXPECT_EQ(sizes->offset, 256);
  EXPECT_FALSE(evaluate(rows_of_64(), ten, last).ok());
  // Nothing is read of what has no elements.
  auto empty = evaluate(rows_of_64(), std::vector<int64_t>{0}, 0);
  ASSERT_TRUE(empty.ok()) << empty.error().message;
  EXPECT_EQ(empty->dimensions[1].size, 1);
  TensorMap rows = {0, DType::kBfloat16, 0, 0, {{Expr::symbol(0), 1, 8}, {10, Expr::symbol(0), 1}}};
  EXPECT_TRUE(evaluate(rows, std::vector<int64_t>{0}, 0).ok()) << "ten rows of nothing";
}

TEST(TensorMap, AddressesAndStridesAreMultiplesOf16Bytes) {
  auto evaluates = [](auto change) {
    TensorMap map = rows_of_64();
    change(map);
    return evaluate(map, std::vector<int64_t>{10}, 100000).ok();
  };
  EXPECT_TRUE(evaluates([](TensorMap&) {}));
  EXPECT_FALSE(evaluates([](TensorMap& map) { map.offset = 4; }));
  EXPECT_FALSE(evaluates([](TensorMap& map) { map.offset = -8; }));
  EXPECT_FALSE(evaluates([](TensorMap& map) { map.dimensions[1].stride = 100; }));
  EXPECT_FALSE(evaluates([](TensorMap& map) { map.dimensions[1].stride = -128; }));
  EXPECT_FALSE(evaluates([](TensorMap& map) { map.dimensions[1].stride = 0; }));
  EXPECT_TRUE(evaluates([](TensorMap& map) {
    map.dimensions[1].size = 1;
    map.dimensions[1].stride = 100;
  })) << "a stride that nothing takes";
}

// Images of `s0` columns and 20 rows of 64 channels, in boxes of 128 windows with a border of one,
// two apart.
TensorMap windows() {
  const Expr columns = Expr::symbol(0);
  const Expr count = floor_div(columns + 1, 2);
  TensorMap map = {0, DType::kBfloat16, 128, 0, {{64, 1, 64}}};
  map.dimensions.push_back({columns, 64, 1, TensorMap::Window{-1, 2, count}});
  map.dimensions.push_back({20, 64 * columns, 1, TensorMap::Window{-1, 2, 10}});
  map.dimensions.push_back({3, 64 * 20 * columns, 128});
  return map;
}

TEST(TensorMap, WindowsAreReadBackAsPrinted) {
  auto read = parse_tensor_map(print(windows()));
  ASSERT_TRUE(read.has_value()) << print(windows());
  EXPECT_EQ(*read, windows());
  EXPECT_FALSE(parse_tensor_map("0|bf16|128|0|64:64:1|8:1:64:-1:2").has_value());
}

TEST(TensorMap, WindowsThatNoDeviceTakesAreRefused) {
  EXPECT_TRUE(verify(windows(), 1, 1).ok());
  auto refuses = [](auto change) {
    TensorMap map = windows();
    change(map);
    return !verify(map, 1, 1).ok();
  };
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].window.reset(); }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[2].window.reset(); }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[3].window = map.dimensions[2].window; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].window->step = 9; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].window->step = 0; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].window->first = -129; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].box = 2; }));
  EXPECT_TRUE(refuses([](TensorMap& map) { map.dimensions[1].window->count = Expr::symbol(1); }));
}

// 14 columns: windows begin at -1, 1, ..., 11, two before the last column.
TEST(TensorMap, CornersFollowFromSizes) {
  auto sizes = evaluate(windows(), std::vector<int64_t>{14}, 3 * 20 * 14 * 64);
  ASSERT_TRUE(sizes.ok()) << sizes.error().message;
  EXPECT_TRUE(sizes->has_windows());
  EXPECT_EQ(sizes->dimensions[1], (TensorMapSizes::Dimension{14, 64, 1, 2, -1, -2}));
  EXPECT_EQ(sizes->dimensions[2], (TensorMapSizes::Dimension{20, 64 * 14, 1, 2, -1, -2}));
  TensorMap far = windows();
  far.dimensions[2].window->count = 100;
  EXPECT_FALSE(evaluate(far, std::vector<int64_t>{14}, 3 * 20 * 14 * 64).ok()) << "beyond 127";
  EXPECT_FALSE(evaluate(windows(), std::vector<int64_t>{14}, 3 * 20 * 14 * 64 - 1).ok());
}

}  // namespace
}  // namespace common
