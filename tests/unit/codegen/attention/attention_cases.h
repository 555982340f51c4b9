// Attention as test cases state it: sizes, a mask and roundings make a body for the template.
#pragma once

#include "tests/unit/codegen/codegen_testing.h"

namespace testing_codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// kAdded: the window, as what is added to scores.
enum class Mask { kNone, kCausal, kWindow, kAdded, kBias, kGiven, kGivenSafe };

// One attention over [heads, rows, keys]. Sizes of 0 stand for the symbol of that name.
struct Attention {
  int64_t groups = 2, members = 1;
  int64_t rows = 5, keys = 7;
  int64_t depth = 16, width = 16;
  Mask mask = Mask::kNone;
  DType dtype = DType::kFloat32;
  bool symbolic = false;
  bool growing = false;  // the number of keys alone is symbolic
  double soft_cap = 0;
  bool rounded = false;  // scores and probabilities through bfloat16
  bool rounds_probabilities = false;
  bool rounds_masked = false;  // scores with their mask, too
  bool transposed = false;     // keys are stored along the sequence
  bool half = false;           // queries, keys and values are of `half_type`
  DType half_type = DType::kBfloat16;
  bool packed = false;  // queries and results lie by row, member and group: heads of a token
  int64_t window = 3;   // keys that a row sees
  bool within = false;  // keys are a part of longer rows
  bool turned = false;  // queries are computed
  bool stores_half = false;
  bool epilogue = false;
};

class Builder {
 public:
  explicit Builder(const Attention& a)
      : a_(a),
        b_(a.symbolic  ? std::vector<SymbolRange>{{0, 1024}, {0, 1024}}
           : a.growing ? std::vector<SymbolRange>{{0, 4096}}
                       : std::vector<SymbolRange>{}) {}

  Graph build() {
    Expr rows = a_.symbolic ? Expr::symbol(0) : Expr(a_.rows);
    Expr keys = a_.symbolic ? Expr::symbol(1) : a_.growing ? Expr::symbol(0) : Expr(a_.keys);
    DType stored = a_.half ? a_.half_type : a_.dtype;
    NodeId q =
        a_.packed ? b_.permute(input(stored, {rows, a_.groups, a_.members, a_.depth}), {1, 2, 0, 3})
                  : input(stored, {a_.groups, a_.members, rows, a_.depth});
    if (a_.turned) q = turn(q);
    NodeId k = a_.transposed ? input(stored, {a_.groups, a_.depth, keys})
               : a_.within   ? part(input(stored, {keys, a_.groups, a_.depth + 8}), keys)
                             : input(stored, {keys, a_.groups, a_.depth});
    NodeId v = input(stored, {a_.groups, keys, a_.width});
    // 0 group, 1 member, 2 row, 3 key, 4 depth or width
    Shape shape{a_.groups, a_.members, rows, keys};
    NodeId scores =
        b_.raw({Op::kContract,
                a_.dtype,
                shape,
                {q, k},
                ContractAttr{{0, 1, 2, 4},
                             a_.transposed ? std::vector<int>{0, 4, 3} : std::vector<int>{3, 0, 4},
                             {0, 1, 2, 3}}});
    if (a_.rounded) scores = round(scores);
    scores = b_.binary(BinaryOp::kMul, scores, b_.scalar(a_.dtype, 0.3));
    if (a_.soft_cap != 0) {
      NodeId cap = b_.scalar(a_.dtype, a_.soft_cap);
      scores = b_.binary(BinaryOp::kMul,
                         b_.unary(UnaryOp::kTanh, b_.binary(BinaryOp::kDiv, scores, cap)), cap);
    }
    scores = masked(scores, rows, keys);
    if (a_.rounds_masked) scores = round(scores);
    NodeId p = b_.raw({Op::kSoftmax, a_.dtype, shape, {scores}, SoftmaxAttr{3, false}});
    if (a_.mask == Mask::kGivenSafe) {
      NodeId top = b_.reduce(ReduceOp::kMax, scores, {3}, true);
      NodeId none = b_.binary(BinaryOp::kEqual, top, b_.scalar(a_.dtype, -kInfinity));
      p = b_.select(none, b_.scalar(a_.dtype, 0), p);
    }
    if (a_.rounded || a_.rounds_probabilities) p = round(p);
    NodeId out = b_.raw({Op::kContract,
                         a_.dtype,
                         {a_.groups, a_.members, rows, a_.width},
                         {p, v},
                         ContractAttr{{0, 1, 2, 3}, {0, 3, 4}, {0, 1, 2, 4}}});
    if (a_.epilogue) {
      NodeId gate = input(a_.dtype, {a_.groups, a_.members, rows, a_.width});
      out = b_.binary(BinaryOp::kAdd, b_.unary(UnaryOp::kTanh, out), gate);
    }
    if (a_.packed) out = b_.permute(out, {2, 0, 1, 3});
    b_.output(a_.stores_half ? b_.cast(out, a_.half_type) : out);
    return b_.finish();
  }

  std::vector<HostTensor> values(Random& random, double high = 2) const {
    std::vector<HostTensor> tensors;
    std::vector<int64_t> symbols{a_.rows, a_.keys};
    if (a_.growing) symbols = {a_.keys};
    for (size_t k = 0; k < shapes_.size(); ++k) {
      tensors.push_back(
          random_tensor(random, dtypes_[k], evaluate_shape(shapes_[k], symbols), -high, high));
    }
    return tensors;
  }

 private:
  NodeId input(DType dtype, Shape shape) {
    shapes_.push_back(shape);
    dtypes_.push_back(dtype);
    return b_.input(InputKind::kUser, dtype, std::move(shape), "x");
  }
  // The row backwards and halved, which rounds nothing.
  NodeId turn(NodeId q) {
    View other{b_.shape(q), {Expr::index(0), Expr::index(1), Expr::index(2)}, {}, 0};
    other.index.push_back(Expr(a_.depth - 1) - Expr::index(3));
    NodeId x = b_.cast(b_.view(q, other), a_.dtype);
    return b_.cast(b_.binary(BinaryOp::kMul, x, b_.scalar(a_.dtype, -0.5)), a_.half_type);
  }
  NodeId part(NodeId x, const Expr& keys) {
    View view{{keys, a_.groups, a_.depth},
              {Expr::index(0), Expr::index(1), Expr::index(2) + Expr(8)},
              {},
              0};
    return b_.view(x, view);
  }
  NodeId round(NodeId x) { return b_.cast(b_.cast(x, a_.half_type), a_.dtype); }
  NodeId position(const Expr& size, int axis, const Shape& shape) {
    NodeId iota = b_.iota(DType::kInt64, size);
    View view{shape, {Expr::index(axis)}, {}, 0};
    return b_.view(iota, view);
  }
  NodeId masked(NodeId scores, const Expr& rows, const Expr& keys) {
    Shape shape{rows, keys};
    NodeId hidden = b_.scalar(a_.dtype, -kInfinity);
    NodeId row = position(rows, 0, shape), key = position(keys, 1, shape);
    switch (a_.mask) {
      case Mask::kNone:
        return scores;
      case Mask::kCausal: {
        // The last row sees all keys.
        NodeId offset = b_.binary(BinaryOp::kSub, b_.size_scalar(DType::kInt64, keys),
                                  b_.size_scalar(DType::kInt64, rows));
        NodeId until = b_.binary(BinaryOp::kAdd, row, offset);
        return b_.select(b_.binary(BinaryOp::kLessEqual, key, until), scores, hidden);
      }
      case Mask::kAdded:
      case Mask::kWindow: {
        NodeId near = b_.binary(BinaryOp::kLess, b_.binary(BinaryOp::kSub, row, key),
                                b_.scalar_int(DType::kInt64, a_.window));
        NodeId seen = b_.binary(BinaryOp::kAnd, near, b_.binary(BinaryOp::kLessEqual, key, row));
        if (a_.mask == Mask::kAdded) {
          NodeId lowest = b_.scalar(a_.dtype, std::numeric_limits<float>::lowest());
          NodeId mask = b_.select(seen, b_.scalar(a_.dtype, 0), lowest);
          return b_.binary(BinaryOp::kAdd, scores, mask);
        }
        return b_.select(b_.unary(UnaryOp::kNot, seen), hidden, scores);
      }
      case Mask::kBias:
        return b_.binary(BinaryOp::kAdd, scores, input(a_.dtype, {rows, keys}));
      default:
        return b_.select(input(DType::kBool, {a_.groups, 1, rows, keys}), scores, hidden);
    }
  }

  const Attention& a_;
  GraphBuilder b_;
  std::vector<Shape> shapes_;
  std::vector<DType> dtypes_;
};

}  // namespace testing_codegen
