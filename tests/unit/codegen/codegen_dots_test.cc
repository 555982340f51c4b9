// Sums of products of rows that lie in inputs, against the reference interpreter.
#include "tests/unit/codegen/attention/attention_cases.h"

namespace testing_codegen {
namespace {

NodeId input(GraphBuilder& b, const Shape& shape, DType dtype) {
  return b.input(InputKind::kUser, dtype, shape, "x");
}

// The sums over `k` of x [k] times each row of y [n, k], as float32.
NodeId rows_times(GraphBuilder& b, NodeId x, NodeId y, int64_t n, const Expr& k) {
  NodeId left = b.expand(b.cast(x, DType::kFloat32), {n, k});
  return b.reduce(ReduceOp::kSum, b.binary(BinaryOp::kMul, left, b.cast(y, DType::kFloat32)), {1});
}

bool calls(const Case& c, std::string_view function) {
  return c.source.text.find(function) != std::string::npos;
}

TEST(CodegenDots, RowsOfEveryLengthAndType) {
  Random random(61);
  KernelBatch batch;
  struct Types {
    DType x, y;
    const char* function;
  };
  const Types all[] = {{DType::kFloat32, DType::kFloat32, "lf_dot_f32_f32("},
                       {DType::kFloat32, DType::kBfloat16, "lf_dot_f32_bf16("},
                       {DType::kBfloat16, DType::kFloat32, "lf_dot_f32_bf16("},
                       {DType::kBfloat16, DType::kBfloat16, "lf_dot_bf16_bf16("},
                       {DType::kFloat32, DType::kFloat16, "lf_dot_f32_f16("},
                       {DType::kFloat16, DType::kFloat32, "lf_dot_f32_f16("},
                       {DType::kFloat16, DType::kFloat16, "lf_dot_f16_f16("}};
  std::vector<const char*> functions;
  for (const Types& types : all) {
    for (int64_t k : {32, 33, 63, 64, 300, 1024, 2051, 5000}) {
      GraphBuilder b;
      NodeId x = input(b, {k}, types.x);
      b.output(rows_times(b, x, input(b, {9, k}, types.y), 9, k));
      batch.add(Template::kLoops, {}, b.finish(),
                {random_tensor(random, types.x, {k}), random_tensor(random, types.y, {9, k})});
      functions.push_back(types.function);
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_TRUE(calls(batch.at(k), functions[k])) << k << "\n" << batch.at(k).source.text;
  }
  batch.check_all(3e-4);
}

// Subnormal numbers, infinities and NaN of float16 as they are: each is a row of its own.
TEST(CodegenDots, EveryNumberOfFloat16) {
  constexpr int64_t kNumbers = 65536, kLength = 35;
  KernelBatch batch;
  GraphBuilder b;
  NodeId x = input(b, {kLength}, DType::kFloat32);
  b.output(rows_times(b, x, input(b, {kNumbers, kLength}, DType::kFloat16), kNumbers, kLength));
  HostTensor ones = HostTensor::zeros(DType::kFloat32, {kLength}).value();
  HostTensor rows = HostTensor::zeros(DType::kFloat16, {kNumbers, kLength}).value();
  auto* bits = reinterpret_cast<uint16_t*>(rows.mutable_bytes().data());
  for (int64_t number = 0; number < kNumbers; ++number) {
    // In the part that is read by vectors, and behind it.
    const int64_t place = number % 2 == 0 ? number % 32 : 32 + number % 3;
    ones.set(place, 1);
    bits[number * kLength + place] = static_cast<uint16_t>(number);
  }
  batch.add(Template::kLoops, {}, b.finish(), {ones, rows});
  batch.compile();
  EXPECT_TRUE(calls(batch.at(0), "lf_dot_f32_f16(")) << batch.at(0).source.text;
  batch.check_all(0);
}

void expect_loop(GraphBuilder& b, std::vector<HostTensor> inputs, double slack) {
  KernelBatch batch;
  batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
  batch.compile();
  EXPECT_FALSE(calls(batch.at(0), "lf_dot_"));
  batch.check_all(slack);
}

// No function multiplies two half types.
TEST(CodegenDots, TwoHalfTypesAreALoop) {
  Random random(66);
  GraphBuilder b;
  NodeId x = input(b, {96}, DType::kBfloat16);
  b.output(rows_times(b, x, input(b, {9, 96}, DType::kFloat16), 9, 96));
  expect_loop(b,
              {random_tensor(random, DType::kBfloat16, {96}),
               random_tensor(random, DType::kFloat16, {9, 96})},
              3e-4);
}

TEST(CodegenDots, FewElementsAreALoop) {
  Random random(62);
  GraphBuilder b;
  NodeId x = input(b, {16}, DType::kFloat32);
  b.output(rows_times(b, x, input(b, {9, 16}, DType::kFloat32), 9, 16));
  expect_loop(b,
              {random_tensor(random, DType::kFloat32, {16}),
               random_tensor(random, DType::kFloat32, {9, 16})},
              2e-6);
}

// Neighbours along the sum that are not neighbours in memory.
TEST(CodegenDots, ColumnsAreALoop) {
  Random random(63);
  GraphBuilder b;
  NodeId x = input(b, {128}, DType::kFloat32);
  NodeId matrix = input(b, {128, 9}, DType::kFloat32);
  NodeId turned = b.view(matrix, view_permute({128, 9}, std::vector<int>{1, 0}));
  b.output(rows_times(b, x, turned, 9, 128));
  expect_loop(b,
              {random_tensor(random, DType::kFloat32, {128}),
               random_tensor(random, DType::kFloat32, {128, 9})},
              3e-4);
}

// Matrices that follow one another, as those of projections that are computed together.
class Concatenated {
 public:
  Concatenated(GraphBuilder& b, Random& random, DType dtype, int64_t k)
      : b_(b), random_(random), dtype_(dtype), k_(k) {}

  NodeId add(const std::vector<int64_t>& rows) {
    int64_t all = 0;
    for (int64_t each : rows) all += each;
    int64_t first = all;
    NodeId joined{};
    for (size_t m = rows.size(); m-- > 0;) {
      first -= rows[m];
      NodeId matrix = b_.cast(input(b_, {rows[m], k_}, dtype_), DType::kFloat32);
      inputs_.insert(inputs_.begin(), random_tensor(random_, dtype_, {rows[m], k_}));
      Expr row = Expr::index(0) - Expr(first);
      NodeId placed =
          b_.view(matrix, View{{all, k_}, {row, Expr::index(1)}, {{row, Expr(rows[m])}}, 0});
      if (m + 1 == rows.size()) {
        joined = placed;
        continue;
      }
      NodeId bound = b_.full_int(DType::kInt64, {all, k_}, first + rows[m]);
      NodeId which = b_.view(b_.iota(DType::kInt64, all), View{{all, k_}, {Expr::index(0)}, {}, 0});
      joined = b_.select(b_.binary(BinaryOp::kLess, which, bound), placed, joined);
    }
    return joined;
  }
  // In the order of the graph's inputs.
  std::vector<HostTensor> inputs() const { return {inputs_.rbegin(), inputs_.rend()}; }

 private:
  GraphBuilder& b_;
  Random& random_;
  DType dtype_;
  int64_t k_;
  std::vector<HostTensor> inputs_;
};

TEST(CodegenDots, MatricesThatFollowOneAnother) {
  Random random(64);
  KernelBatch batch;
  for (DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (const std::vector<int64_t>& rows :
         std::vector<std::vector<int64_t>>{{3, 4}, {5, 1, 2}, {1, 1, 1, 6}}) {
      for (int64_t k : {96, 2100}) {
        GraphBuilder b;
        NodeId x = input(b, {k}, dtype);
        Concatenated matrices(b, random, dtype, k);
        NodeId joined = matrices.add(rows);
        int64_t all = 0;
        for (int64_t each : rows) all += each;
        b.output(rows_times(b, x, joined, all, k));
        std::vector<HostTensor> inputs = matrices.inputs();
        inputs.insert(inputs.begin(), random_tensor(random, dtype, {k}));
        batch.add(Template::kLoops, {}, b.finish(), std::move(inputs));
      }
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    EXPECT_TRUE(calls(batch.at(k), " ? lf_dot_")) << k << "\n" << batch.at(k).source.text;
  }
  batch.check_all(3e-4);
}

// Values of few rows are multiplied where they lie, also of half types.
TEST(CodegenDots, AttentionOfFewRowsReadsValuesInPlace) {
  Random random(65);
  KernelBatch batch;
  for (DType stored : {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    for (int64_t keys : {1, 33, 300}) {
      Attention a;
      a.rows = 1;
      a.members = 2;
      a.keys = keys;
      a.depth = a.width = 64;
      a.half = common::is_half(stored);
      if (a.half) a.half_type = stored;
      Builder builder(a);
      Graph body = builder.build();
      batch.add(Template::kAttention, {}, body, builder.values(random));
    }
  }
  batch.compile();
  for (size_t k = 0; k < batch.size(); ++k) {
    const bool is_half = common::is_half(batch.at(k).kernel.body.inputs[2].dtype);
    EXPECT_TRUE(calls(batch.at(k), "lf_fetch_ahead(b)")) << k << "\n" << batch.at(k).source.text;
    EXPECT_EQ(calls(batch.at(k), "lf_widen"), is_half) << k << "\n" << batch.at(k).source.text;
  }
  batch.check_all(1e-4);
}

}  // namespace
}  // namespace testing_codegen
