// Transforms as the front end writes them: sums of products with twiddles over a grid of positions.
#include <cmath>

#include "rules_building.h"

namespace coordinator::rules_testing {
namespace {

// op(direction * 2 pi p q / n) for p below n and q below `wanted`.
IrNode twiddle(GraphBuilder& b, UnaryOp op, int64_t n, int64_t wanted, double direction,
               bool reduced, DType dtype) {
  IrNode row = b.expand(b.unsqueeze(b.iota(DType::kInt64, n), 1), {n, wanted});
  IrNode column = b.expand(b.iota(DType::kInt64, wanted), {n, wanted});
  IrNode turn = b.binary(BinaryOp::kMul, row, column);
  if (reduced) turn = b.binary(BinaryOp::kMod, turn, b.scalar_int(DType::kInt64, n));
  IrNode angle = b.binary(BinaryOp::kMul, b.cast(turn, DType::kFloat64),
                          b.scalar(DType::kFloat64, direction * 2 * M_PI / static_cast<double>(n)));
  return b.cast(b.unary(op, angle), dtype);
}

RuleCase transform(UnaryOp op, int64_t n, int64_t wanted, double direction, bool reduced) {
  return {{DType::kFloat32, DType::kFloat64}, [=](GraphBuilder& b, DType t) {
            IrNode x = b.input(InputKind::kUser, t, {Expr::symbol(0), n}, "x");
            IrNode matrix = twiddle(b, op, n, wanted, direction, reduced, t);
            IrNode products = b.binary(BinaryOp::kMul, b.unsqueeze(x, 2), matrix);
            b.output(b.reduce(ReduceOp::kSum, products, {1}));
          }};
}

RuleCase part_of(int64_t n, common::FourierAttr part, bool is_complex) {
  return {{DType::kFloat32, DType::kFloat64}, [=](GraphBuilder& b, DType t) {
            auto signal = [&] { return b.input(InputKind::kUser, t, {Expr::symbol(0), n}, "x"); };
            IrNode real = signal();
            std::optional<IrNode> imaginary;
            if (is_complex) imaginary = signal();
            b.output(b.fourier(real, imaginary, part));
          }};
}

}  // namespace

void add_fourier_cases(std::multimap<std::string, RuleCase>& cases) {
  cases.emplace("transform-of-real", part_of(20, {false, false, 11}, false));
  cases.emplace("transform-of-real", part_of(96, {true, true, 96}, false));
  cases.emplace("transform-of-complex", part_of(12, {true, false, 12}, true));
  cases.emplace("transform-of-complex", part_of(120, {false, true, 70}, true));
  cases.emplace("butterflies", transform(UnaryOp::kCos, 16, 9, -1, true));
  cases.emplace("butterflies", transform(UnaryOp::kSin, 24, 24, 1, true));
  cases.emplace("butterflies", transform(UnaryOp::kSin, 50, 26, -1, false));
}

}  // namespace coordinator::rules_testing
