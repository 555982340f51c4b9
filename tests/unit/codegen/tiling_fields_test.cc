// If these fail, a tiling says something that its code does not do, or the same tiling gives other
// code: then a template still chooses what the schedule should.
#include <gtest/gtest.h>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/schedule/kernels/kernel_nest.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/codegen/cuda/cuda.h"
#include "worker/compile/target.h"

namespace worker {
namespace {

using namespace common;  // NOLINT: a test's own vocabulary

NodeId input(GraphBuilder& b, DType dtype, Shape shape) {
  return b.input(InputKind::kUser, dtype, std::move(shape), "");
}

Kernel product(DType dtype, Expr rows, int64_t columns, int64_t depth, bool transposed) {
  GraphBuilder b({{1, 4096}});
  NodeId x = input(b, dtype, {std::move(rows), depth});
  NodeId w = transposed ? input(b, dtype, {columns, depth}) : input(b, dtype, {depth, columns});
  DType sum = is_half(dtype) ? DType::kFloat32 : dtype;
  if (sum != dtype) {
    x = b.cast(x, sum);
    w = b.cast(w, sum);
  }
  ContractAttr labels{{0, 2}, {2, 1}, {0, 1}};
  if (transposed) labels.b = {1, 2};
  Shape shape = {b.shape(x)[0], columns};
  NodeId y = b.raw({Op::kContract, sum, shape, {x, w}, labels});
  b.output(b.unary(UnaryOp::kTanh, y));
  return {Template::kTile, {}, canonical(b.finish()), {}};
}

struct AttentionKind {
  bool has_mask = false;  // that data gives
  bool rounds = true;     // probabilities of half operands
};

// Softmax of queries times keys, times values, in `heads`.
Kernel attention(DType dtype, int64_t heads, Expr rows, Expr keys, int64_t width,
                 AttentionKind kind = {}) {
  GraphBuilder b({{1, 4096}});
  auto value = [&](Shape shape) {
    NodeId x = input(b, dtype, std::move(shape));
    return is_half(dtype) ? b.cast(x, DType::kFloat32) : x;
  };
  NodeId q = value({heads, rows, width}), k = value({heads, keys, width});
  NodeId v = value({heads, keys, width});
  NodeId scores = b.raw({Op::kContract,
                         DType::kFloat32,
                         {heads, rows, keys},
                         {q, k},
                         ContractAttr{{0, 1, 3}, {0, 2, 3}, {0, 1, 2}}});
  if (kind.has_mask) {
    scores = b.binary(BinaryOp::kAdd, scores, input(b, DType::kFloat32, b.shape(scores)));
  }
  NodeId p =
      b.raw({Op::kSoftmax, DType::kFloat32, b.shape(scores), {scores}, SoftmaxAttr{2, false}});
  if (is_half(dtype) && kind.rounds) p = b.cast(b.cast(p, dtype), DType::kFloat32);
  NodeId y = b.raw({Op::kContract,
                    DType::kFloat32,
                    {heads, rows, width},
                    {p, v},
                    ContractAttr{{0, 1, 3}, {0, 3, 2}, {0, 1, 2}}});
  b.output(is_half(dtype) ? b.cast(y, dtype) : y);
  return {Template::kAttention, {}, canonical(b.finish()), {}};
}

// Real signals, whose transform has passes of several radices.
Kernel transform(int64_t points) {
  GraphBuilder b;
  NodeId x = input(b, DType::kFloat32, {40, points});
  b.output(b.fourier(x, std::nullopt, {false, false, points / 2 + 1}));
  return {Template::kFourier, {}, canonical(b.finish()), {}};
}

// Queries in groups that share keys and values.
Kernel grouped_attention(int64_t groups, int64_t rows, int64_t keys, int64_t width) {
  GraphBuilder b;
  auto value = [&](Shape shape) {
    return b.cast(input(b, DType::kBfloat16, std::move(shape)), DType::kFloat32);
  };
  NodeId q = value({2, groups, rows, width}), k = value({2, keys, width});
  NodeId v = value({2, keys, width});
  const Shape shape = {2, groups, rows, keys};
  NodeId scores = b.raw({Op::kContract,
                         DType::kFloat32,
                         shape,
                         {q, k},
                         ContractAttr{{0, 1, 2, 4}, {0, 3, 4}, {0, 1, 2, 3}}});
  NodeId p = b.raw({Op::kSoftmax, DType::kFloat32, shape, {scores}, SoftmaxAttr{3, false}});
  b.output(b.raw({Op::kContract,
                  DType::kFloat32,
                  {2, groups, rows, width},
                  {p, v},
                  ContractAttr{{0, 1, 2, 4}, {0, 4, 3}, {0, 1, 2, 3}}}));
  return {Template::kAttention, {}, canonical(b.finish()), {}};
}

// Positions in the order of the values along the last axis.
Kernel sort(DType dtype, Expr length) {
  GraphBuilder b({{1, 4096}});
  b.output(b.sort_indices(input(b, dtype, {3, std::move(length)}), 1, false));
  return {Template::kSort, {}, canonical(b.finish()), {}};
}

Kernel scan(int axis) {
  GraphBuilder b({{1, 4096}});
  b.output(b.scan(ScanOp::kSum, input(b, DType::kFloat32, {30, Expr::symbol(0)}), axis));
  return {Template::kScan, {}, canonical(b.finish()), {}};
}

// Between them they take every form of tiling that a target has.
std::vector<Kernel> kernels() {
  const Expr s = Expr::symbol(0);
  return {product(DType::kFloat32, 200, 384, 512, false),
          product(DType::kFloat32, s, 100, 333, true),
          product(DType::kBfloat16, 512, 512, 1024, true),
          product(DType::kBfloat16, s, 256, 512, false),
          product(DType::kFloat32, 3, 4096, 1024, true),
          product(DType::kBfloat16, 8, 4096, 4096, true),
          attention(DType::kFloat32, 4, 128, 200, 64),
          attention(DType::kFloat32, 4, 1, s, 64),
          attention(DType::kBfloat16, 4, 128, 256, 64),
          attention(DType::kBfloat16, 8, 1, s, 128),
          attention(DType::kBfloat16, 8, 1, s, 128, {.rounds = false}),
          attention(DType::kBfloat16, 8, 1, s, 128, {.has_mask = true, .rounds = false}),
          attention(DType::kBfloat16, 32, 1024, 1024, 128),
          attention(DType::kBfloat16, 32, 1024, 1024, 64, {.rounds = false}),
          attention(DType::kBfloat16, 4, s, 256, 64, {.rounds = false}),
          attention(DType::kFloat16, 4, 128, 256, 64, {.rounds = false}),
          grouped_attention(4, 128, 256, 64),
          grouped_attention(16, 1024, 1024, 64),
          sort(DType::kFloat32, 100),
          sort(DType::kInt64, 100),
          sort(DType::kBfloat16, s),
          sort(DType::kFloat32, 100000),
          sort(DType::kInt8, 3000),
          scan(0),
          scan(1),
          transform(960),
          transform(256)};
}

std::unique_ptr<CodeGenerator> generator_for(const Target& target) {
  if (is_gpu(machine_of(target))) return std::make_unique<CudaCodeGenerator>(target);
  return std::make_unique<CpuCodeGenerator>(unit_of(target));
}

std::optional<std::string> printed(const CodeGenerator& generator, const Kernel& kernel) {
  if (!verify(Program{.kernels = {kernel}}).ok()) return std::nullopt;
  auto source = generator.generate(kernel);
  if (!source.ok()) return std::nullopt;
  // The name of an entry is that of what it was printed from.
  std::string text = source->text;
  for (size_t at = 0; (at = text.find(source->entry.name, at)) != std::string::npos;) {
    text.erase(at, source->entry.name.size());
  }
  const EntryPoint& entry = source->entry;
  return cat(entry.block.threads, " threads, ", entry.block.shared_bytes, " bytes, ",
             entry.units.text(), " units, scratch ", entry.scratch_bytes.text(), ", ",
             entry.maps.size(), " maps\n", text);
}

class TilingFields : public ::testing::TestWithParam<const char*> {};

TEST_P(TilingFields, EachChangesTheTextOrIsRefused) {
  const Target target{GetParam()};
  auto generator = generator_for(target);
  std::set<std::string> forms;
  size_t changed = 0;
  for (Kernel kernel : kernels()) {
    ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, {}}).ok());
    if (!kernel.tiling) continue;  // loops compute it
    const Tiling tiling = *kernel.tiling;
    SCOPED_TRACE(print(tiling));
    forms.insert(tiling.form);
    auto text = printed(*generator, kernel);
    ASSERT_TRUE(text.has_value());
    EXPECT_TRUE(printed(*generator, kernel) == text);
    for (const auto& [name, size] : tiling.sizes) {
      for (const Expr& other : {size + Expr(1), size + size, floor_div(size, Expr(2)), Expr(0),
                                Expr(1), size + Expr(16)}) {
        if (other == size) continue;
        kernel.tiling->sizes[name] = other;
        auto now = printed(*generator, kernel);
        changed += now ? 1 : 0;
        EXPECT_FALSE(now == text) << name << " became " << other.text();
      }
      kernel.tiling->sizes.erase(name);
      EXPECT_FALSE(printed(*generator, kernel).has_value()) << "without " << name;
      kernel.tiling = tiling;
    }
    kernel.tiling->sizes["unheard_of"] = 1;
    EXPECT_FALSE(printed(*generator, kernel).has_value());
    kernel.tiling = Tiling{"unheard_of", tiling.sizes};
    EXPECT_FALSE(printed(*generator, kernel).has_value());
    kernel.tiling.reset();
    EXPECT_FALSE(printed(*generator, kernel).has_value()) << "without a tiling";
  }
  EXPECT_GE(forms.size(), 2u);
  EXPECT_GT(changed, 20u) << "nearly all changes were refused";
}

INSTANTIATE_TEST_SUITE_P(Targets, TilingFields,
                         ::testing::Values("cpu-x86_64-avx512", "cpu-x86_64-avx512bf16",
                                           "cpu-x86_64-amxbf16", "cpu-x86_64-avx2", "cuda-sm_80",
                                           "cuda-sm_90a"));

// What EachChangesTheTextOrIsRefused relies on.
TEST(TilingFields, GpusTakeEveryFormAndMethod) {
  std::set<std::string> forms, methods;
  for (const char* name : {"cuda-sm_80", "cuda-sm_90a"}) {
    for (Kernel kernel : kernels()) {
      ASSERT_TRUE(add_nest(kernel, {machine_of({name}), name, {}}).ok());
      const Tiling tiling = kernel.tiling.value_or(Tiling{});
      if (kernel.form == Template::kAttention) forms.insert(tiling.form);
      if (tiling.form == "sort") methods.insert(tiling.sizes.at("method").text());
    }
  }
  EXPECT_EQ(methods, (std::set<std::string>{"0", "1", "2", "3"}));
  EXPECT_EQ(forms, (std::set<std::string>{"attention_decode", "attention_flash", "attention_skinny",
                                          "attention_threads", "attention_warpgroups"}));
}

TEST(TilingFields, AttentionThatNoFormFitsHasLoops) {
  const Target target{"cuda-sm_80"};
  auto generator = generator_for(target);
  Kernel kernel = attention(DType::kFloat32, 2, 64, 64, 1024);
  ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, {}}).ok());
  EXPECT_FALSE(kernel.tiling.has_value());
  ASSERT_TRUE(kernel.nest.has_value());
  EXPECT_TRUE(printed(*generator, kernel).has_value());
  // As wide as forms of half-precision operands hold: nothing is left to loops.
  for (const Expr& rows : {Expr(1), Expr(512)}) {
    kernel = attention(DType::kBfloat16, 2, rows, 1024, 256, {.rounds = false});
    ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, {}}).ok());
    EXPECT_TRUE(kernel.tiling.has_value());
    EXPECT_FALSE(kernel.nest.has_value());
  }
}

// No chooser asks for what the generator refuses, whatever schedules say.
TEST(TilingFields, WhatSchedulesAskForIsPrinted) {
  for (const char* name : {"cpu-x86_64-avx512", "cuda-sm_80", "cuda-sm_90a"}) {
    const Target target{name};
    auto generator = generator_for(target);
    for (const Kernel& each : kernels()) {
      for (const ScheduleChoice& choice : schedule_parameters(each.form)) {
        for (int64_t value : choice.values) {
          Kernel kernel = each;
          kernel.schedule = {{std::string(choice.name), value}};
          ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, {}}).ok());
          EXPECT_TRUE(printed(*generator, kernel).has_value())
              << name << " " << choice.name << "=" << value << " "
              << (kernel.tiling ? print(*kernel.tiling) : "");
        }
      }
    }
  }
}

// Tilings are of an instruction set: other targets' generators refuse them.
TEST(TilingFields, OfWarpgroupsAreRefusedWhereTheseDoNotMultiply) {
  Kernel kernel = attention(DType::kBfloat16, 32, 1024, 1024, 128);
  ASSERT_TRUE(add_nest(kernel, {machine_of({"cuda-sm_90a"}), "cuda-sm_90a", {}}).ok());
  ASSERT_EQ(kernel.tiling.value_or(Tiling{}).form, "attention_warpgroups");
  EXPECT_TRUE(printed(*generator_for({"cuda-sm_90a"}), kernel).has_value());
  EXPECT_FALSE(printed(*generator_for({"cuda-sm_80"}), kernel).has_value());
}

// Schedules are for who chooses tilings: a generator does not read them.
TEST(TilingFields, SchedulesAreNotRead) {
  for (const char* name : {"cpu-x86_64-avx512", "cuda-sm_80", "cuda-sm_90a"}) {
    const Target target{name};
    auto generator = generator_for(target);
    for (Kernel kernel : kernels()) {
      ASSERT_TRUE(add_nest(kernel, {machine_of(target), target.name, {}}).ok());
      if (!kernel.tiling) continue;
      auto text = printed(*generator, kernel);
      for (const ScheduleChoice& choice : schedule_parameters(kernel.form)) {
        kernel.schedule = {{std::string(choice.name), choice.values.back()}};
        EXPECT_TRUE(printed(*generator, kernel) == text) << choice.name;
      }
    }
  }
}

}  // namespace
}  // namespace worker
