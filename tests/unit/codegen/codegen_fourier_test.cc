// Code of the kFourier template against the reference interpreter.
#include <gtest/gtest.h>

#include "codegen_testing.h"
#include "common/ir/hlir/fourier_form.h"

namespace {

using namespace testing_codegen;  // NOLINT: a test's own vocabulary

enum class Outcome { kReal, kImaginary, kBoth, kPower, kTransposed, kAcross };

struct Transform {
  int64_t points = 16;
  int64_t count = 9;
  Shape rows = {5};
  bool is_complex = false;
  bool inverse = false;
  Outcome result = Outcome::kBoth;
  DType dtype = DType::kFloat32;
};

// Windowed rows; parts of their transform, or what elementwise nodes make of these.
Graph body_of(const Transform& t) {
  GraphBuilder b;
  Shape shape = t.rows;
  shape.push_back(t.points);
  NodeId window = b.input(InputKind::kUser, t.dtype, {t.points}, "");
  auto signal = [&] {
    return b.binary(BinaryOp::kMul, b.input(InputKind::kUser, t.dtype, shape, ""), window);
  };
  NodeId real = signal();
  std::optional<NodeId> imaginary;
  if (t.is_complex) imaginary = signal();
  auto part = [&](bool is_imaginary) {
    return b.fourier(real, imaginary, {is_imaginary, t.inverse, t.count});
  };
  auto square = [&](NodeId x) { return b.binary(BinaryOp::kMul, x, x); };
  auto power = [&] { return b.binary(BinaryOp::kAdd, square(part(false)), square(part(true))); };
  switch (t.result) {
    case Outcome::kReal:
      b.output(part(false));
      break;
    case Outcome::kImaginary:
      b.output(part(true));
      break;
    case Outcome::kBoth:
      b.output(part(false));
      b.output(part(true));
      break;
    case Outcome::kPower:
      b.output(power());
      break;
    case Outcome::kAcross: {  // memory runs along the rows
      NodeId x = power();
      std::vector<int> order;
      for (int k = 0; k < b.rank(x); ++k) order.push_back(k);
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      b.output(b.permute(x, order));
      break;
    }
    case Outcome::kTransposed: {
      NodeId x = power();
      std::vector<int> order;
      for (int k = 1; k < b.rank(x); ++k) order.push_back(k);
      order.insert(order.end() - 1, 0);
      b.output(b.permute(x, order));
      break;
    }
  }
  return b.finish();
}

std::string describe_transform(const Transform& t) {
  return cat(t.points, " points, ", t.count, " of ", shape_text(t.rows),
             t.is_complex ? " complex" : "", t.inverse ? " inverse" : "", " result ",
             static_cast<int>(t.result));
}

void add(KernelBatch& batch, Random& random, const Transform& t) {
  Graph body = body_of(t);
  ASSERT_TRUE(fourier_form(canonical(body)).has_value()) << describe_transform(t);
  std::vector<HostTensor> inputs;
  for (const GraphInput& input : canonical(body).inputs) {
    inputs.push_back(random_tensor(random, input.dtype, evaluate_shape(input.shape, {})));
  }
  batch.add(Template::kFourier, {}, body, std::move(inputs));
}

// wanted: the template's own code on a CPU, not loops.
void compile_and_check(KernelBatch& batch, int64_t longest = 64, bool wanted = true) {
  batch.compile();
  for (size_t k = 0; k < batch.size() && !testing::Test::HasFatalFailure(); ++k) {
    // Errors are small against a row, not against each of its frequencies.
    double slack = 1e-5 * std::sqrt(static_cast<double>(longest));
    batch.check(k, slack);
    batch.check(k, slack, 3);
    bool is_split = batch.at(k).source.text.find("twiddles[]") != std::string::npos;
    EXPECT_EQ(is_split, wanted && batch.at(k).source.text.find("__global__") == std::string::npos)
        << k;
  }
}

// A wrong radix, twiddle or order of passes shows at some length.
TEST(CodegenFourier, AllLengths) {
  Random random(1);
  KernelBatch batch;
  for (int64_t points : {1,  2,  3,   4,   5,   7,   8,   12,   15,   16,   49,
                         60, 64, 100, 128, 256, 400, 512, 1024, 2048, 2100, 4096}) {
    // An emulated GPU multiplies with every twiddle.
    if (points > 64 && runs_on_gpu()) continue;
    Transform t;
    t.points = points;
    t.count = points / 2 + 1;
    t.rows = {points > 500 ? 3 : 17};
    add(batch, random, t);
    if (points > 400 && points != 1024) continue;
    t.is_complex = true;
    t.count = points;
    add(batch, random, t);
  }
  compile_and_check(batch, 4096);
}

// Rows that fill no vector, or several axes of them, and every way out of the kernel.
TEST(CodegenFourier, RowsAndResults) {
  Random random(2);
  KernelBatch batch;
  for (const Shape& rows : {Shape{}, Shape{1}, Shape{16}, Shape{3, 11}, Shape{2, 1, 33}}) {
    for (Outcome result : {Outcome::kReal, Outcome::kImaginary, Outcome::kPower,
                           Outcome::kTransposed, Outcome::kAcross}) {
      for (bool is_complex : {false, true}) {
        for (bool inverse : {false, true}) {
          Transform t;
          t.points = 20;
          t.count = is_complex ? 20 : inverse ? 13 : 11;
          t.rows = rows;
          t.is_complex = is_complex;
          t.inverse = inverse;
          t.result = result;
          t.dtype = inverse ? DType::kFloat64 : DType::kFloat32;
          if (result >= Outcome::kTransposed && rows.empty()) continue;
          add(batch, random, t);
        }
      }
    }
  }
  compile_and_check(batch);
}

// Short vectors have squares of their own.
TEST(CodegenFourier, OtherVectors) {
  for (const char* target : {"cpu-x86_64-avx2", "cpu-x86_64-sse2"}) {
    Random random(3);
    KernelBatch batch(target);
    for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
      Transform t;
      t.points = 60;
      t.count = 31;
      t.rows = {13};
      t.dtype = dtype;
      add(batch, random, t);
    }
    compile_and_check(batch);
  }
}

// What one kernel cannot hold is still computed, by loops.
TEST(CodegenFourier, OtherLengths) {
  Random random(4);
  KernelBatch batch;
  Transform t;
  t.points = 26;
  t.count = 26;
  Graph body = body_of(t);
  EXPECT_FALSE(fourier_form(body).has_value());
  std::vector<HostTensor> inputs;
  for (const GraphInput& input : canonical(body).inputs) {
    inputs.push_back(random_tensor(random, input.dtype, evaluate_shape(input.shape, {})));
  }
  batch.add(Template::kFourier, {}, body, std::move(inputs));
  compile_and_check(batch, 64, false);
}

}  // namespace
