#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/ir/hlir/philox.h"
#include "common/runtime/interpreter/interpreter_math.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {
namespace {

// Elements computed at a time; operands that are not contiguous are packed block by block.
constexpr int64_t kBlock = 512;

// Computes `count` consecutive elements from contiguous operands.
using BlockKernel = void (*)(const void* const* in, void* out, int64_t count);

template <class R, class T, class F>
void map1(const void* const* in, void* out, int64_t count) {
  const T* a = static_cast<const T*>(in[0]);
  R* to = static_cast<R*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = F{}(a[i]);
}
template <class R, class T, class F>
void map2(const void* const* in, void* out, int64_t count) {
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  R* to = static_cast<R*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = F{}(a[i], b[i]);
}
template <class T, class F>
BlockKernel unary_loop(F) {
  return &map1<T, T, F>;
}
template <class T, class F>
BlockKernel binary_loop(F) {
  return &map2<T, T, F>;
}
template <class T, class F>
BlockKernel test_loop(F) {
  return &map1<Bool, T, F>;
}
template <class T, class F>
BlockKernel compare_loop(F) {
  return &map2<Bool, T, F>;
}

// Runs a kernel over N operands of equal sizes into a new value.
template <size_t N>
Result<Value> run_elementwise(const Context& context, const std::array<const Value*, N>& in,
                              DType to, BlockKernel kernel) {
  std::vector<char> repeated = repeated_axes(in);
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, to, in[0]->sizes, repeated));
  std::array<Sizes, N + 1> strides;
  std::array<int64_t, N + 1> offsets{};
  std::array<int64_t, N + 1> widths{};
  std::array<const std::byte*, N> data{};
  for (size_t n = 0; n < N; ++n) {
    strides[n] = in[n]->strides;
    widths[n] = dtype_size(in[n]->dtype());
    data[n] = in[n]->storage.data() + in[n]->offset * widths[n];
  }
  strides[N] = out.strides;
  widths[N] = dtype_size(to);
  auto* target = out.mutable_data<std::byte>();
  Nest<N + 1> nest(stored_sizes(out.sizes, repeated), strides);
  alignas(64) std::byte packed[N][kBlock * 8];
  nest.rows(offsets, [&](const std::array<int64_t, N + 1>& at) {
    for (int64_t first = 0; first < nest.length; first += kBlock) {
      int64_t count = std::min(kBlock, nest.length - first);
      std::array<const void*, N> operands;
      for (size_t n = 0; n < N; ++n) {
        int64_t step = nest.steps[n];
        const std::byte* from = data[n] + (at[n] + first * step) * widths[n];
        operands[n] = from;
        if (step == 1 || count == 1) continue;
        if (step == 0 && first != 0) {
          operands[n] = packed[n];  // packed by the row's first block
          continue;
        }
        dispatch_bytes(widths[n], [&](auto unit) {
          using T = decltype(unit);
          const T* source = reinterpret_cast<const T*>(from);
          T* block = reinterpret_cast<T*>(packed[n]);
          for (int64_t j = 0; j < count; ++j) block[j] = source[j * step];
        });
        operands[n] = packed[n];
      }
      kernel(operands.data(), target + (at[N] + first) * widths[N], count);
    }
  });
  return out;
}

// f32 goes through double and is rounded once; `F` works on doubles.
template <class T, class F>
BlockKernel wide_unary(F) {
  auto narrowing = [](T x) { return static_cast<T>(F{}(static_cast<double>(x))); };
  return unary_loop<T>(narrowing);
}
template <class T, class F>
BlockKernel wide_binary(F) {
  auto narrowing = [](T x, T y) {
    return static_cast<T>(F{}(static_cast<double>(x), static_cast<double>(y)));
  };
  return binary_loop<T>(narrowing);
}

template <class T>
BlockKernel transcendental_kernel(UnaryOp op) {
  switch (op) {
    case UnaryOp::kExp:
      return wide_unary<T>([](double x) { return std::exp(x); });
    case UnaryOp::kExp2:
      return wide_unary<T>([](double x) { return std::exp2(x); });
    case UnaryOp::kExpm1:
      return wide_unary<T>([](double x) { return std::expm1(x); });
    case UnaryOp::kLog:
      return wide_unary<T>([](double x) { return std::log(x); });
    case UnaryOp::kLog2:
      return wide_unary<T>([](double x) { return std::log2(x); });
    case UnaryOp::kLog10:
      return wide_unary<T>([](double x) { return std::log10(x); });
    case UnaryOp::kLog1p:
      return wide_unary<T>([](double x) { return std::log1p(x); });
    case UnaryOp::kSin:
      return wide_unary<T>([](double x) { return std::sin(x); });
    case UnaryOp::kCos:
      return wide_unary<T>([](double x) { return std::cos(x); });
    case UnaryOp::kTan:
      return wide_unary<T>([](double x) { return std::tan(x); });
    case UnaryOp::kAsin:
      return wide_unary<T>([](double x) { return std::asin(x); });
    case UnaryOp::kAcos:
      return wide_unary<T>([](double x) { return std::acos(x); });
    case UnaryOp::kAtan:
      return wide_unary<T>([](double x) { return std::atan(x); });
    case UnaryOp::kSinh:
      return wide_unary<T>([](double x) { return std::sinh(x); });
    case UnaryOp::kCosh:
      return wide_unary<T>([](double x) { return std::cosh(x); });
    case UnaryOp::kTanh:
      return wide_unary<T>([](double x) { return std::tanh(x); });
    case UnaryOp::kAsinh:
      return wide_unary<T>([](double x) { return std::asinh(x); });
    case UnaryOp::kAcosh:
      return wide_unary<T>([](double x) { return std::acosh(x); });
    case UnaryOp::kAtanh:
      return wide_unary<T>([](double x) { return std::atanh(x); });
    case UnaryOp::kErf:
      return wide_unary<T>([](double x) { return std::erf(x); });
    case UnaryOp::kErfc:
      return wide_unary<T>([](double x) { return std::erfc(x); });
    case UnaryOp::kSigmoid:
      return wide_unary<T>([](double x) { return 1 / (1 + std::exp(-x)); });
    case UnaryOp::kLgamma:
      return wide_unary<T>([](double x) { return log_gamma(x); });
    case UnaryOp::kDigamma:
      return wide_unary<T>([](double x) { return digamma(x); });
    default:
      LFARM_CHECK(op == UnaryOp::kErfinv, "not an operation on floats");
      return wide_unary<T>([](double x) { return erfinv(x); });
  }
}

template <class T>
BlockKernel float_unary_kernel(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNeg:
      return unary_loop<T>([](T x) { return -x; });
    case UnaryOp::kAbs:
      return unary_loop<T>([](T x) { return std::fabs(x); });
    case UnaryOp::kSign:
      return unary_loop<T>([](T x) { return static_cast<T>((x > 0) - (x < 0)); });
    case UnaryOp::kSqrt:
      return unary_loop<T>([](T x) { return std::sqrt(x); });
    case UnaryOp::kRsqrt:
      return wide_unary<T>([](double x) { return 1 / std::sqrt(x); });
    case UnaryOp::kRecip:
      return unary_loop<T>([](T x) { return 1 / x; });
    case UnaryOp::kFloor:
      return unary_loop<T>([](T x) { return std::floor(x); });
    case UnaryOp::kCeil:
      return unary_loop<T>([](T x) { return std::ceil(x); });
    case UnaryOp::kTrunc:
      return unary_loop<T>([](T x) { return std::trunc(x); });
    case UnaryOp::kRound:
      return unary_loop<T>([](T x) { return std::nearbyint(x); });
    case UnaryOp::kIsNan:
      return test_loop<T>([](T x) { return Bool{x != x}; });
    case UnaryOp::kIsInf:
      return test_loop<T>([](T x) { return Bool{std::isinf(x)}; });
    default:
      return transcendental_kernel<T>(op);
  }
}

template <class T>
BlockKernel integer_unary_kernel(UnaryOp op) {
  switch (op) {
    case UnaryOp::kNeg:
      return unary_loop<T>([](T x) { return wrap_sub(T{0}, x); });
    case UnaryOp::kAbs:
      return unary_loop<T>([](T x) { return x < T{0} ? wrap_sub(T{0}, x) : x; });
    case UnaryOp::kSign:
      return unary_loop<T>([](T x) { return static_cast<T>((x > T{0}) - (x < T{0})); });
    default:
      LFARM_CHECK(op == UnaryOp::kNot, "not an operation on integers");
      return unary_loop<T>([](T x) { return static_cast<T>(~x); });
  }
}

template <class T>
BlockKernel comparison_kernel(BinaryOp op) {
  switch (op) {
    case BinaryOp::kLess:
      return compare_loop<T>([](T a, T b) { return Bool{a < b}; });
    case BinaryOp::kLessEqual:
      return compare_loop<T>([](T a, T b) { return Bool{a <= b}; });
    case BinaryOp::kEqual:
      return compare_loop<T>([](T a, T b) { return Bool{a == b}; });
    default:
      LFARM_CHECK(op == BinaryOp::kNotEqual, "not a comparison");
      return compare_loop<T>([](T a, T b) { return Bool{a != b}; });
  }
}

// One operation in f32 (add, sub, mul, div) is the double result rounded once.
template <class T>
BlockKernel float_binary_kernel(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return binary_loop<T>([](T a, T b) { return a + b; });
    case BinaryOp::kSub:
      return binary_loop<T>([](T a, T b) { return a - b; });
    case BinaryOp::kMul:
      return binary_loop<T>([](T a, T b) { return a * b; });
    case BinaryOp::kDiv:
      return binary_loop<T>([](T a, T b) { return a / b; });
    case BinaryOp::kFloorDiv:
      return wide_binary<T>([](double a, double b) { return float_floor_div(a, b); });
    case BinaryOp::kMod:
      return wide_binary<T>([](double a, double b) { return float_mod(a, b); });
    case BinaryOp::kFmod:
      return wide_binary<T>([](double a, double b) { return std::fmod(a, b); });
    case BinaryOp::kMin:
      return binary_loop<T>([](T a, T b) { return min_of(a, b); });
    case BinaryOp::kMax:
      return binary_loop<T>([](T a, T b) { return max_of(a, b); });
    case BinaryOp::kPow:
      return wide_binary<T>([](double a, double b) { return std::pow(a, b); });
    case BinaryOp::kAtan2:
      return wide_binary<T>([](double a, double b) { return std::atan2(a, b); });
    case BinaryOp::kCopysign:
      return binary_loop<T>([](T a, T b) { return std::copysign(a, b); });
    case BinaryOp::kHypot:
      return wide_binary<T>([](double a, double b) { return std::hypot(a, b); });
    case BinaryOp::kNextafter:
      return binary_loop<T>([](T a, T b) { return std::nextafter(a, b); });
    default:
      return comparison_kernel<T>(op);
  }
}

template <class T>
BlockKernel integer_binary_kernel(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return binary_loop<T>([](T a, T b) { return wrap_add(a, b); });
    case BinaryOp::kSub:
      return binary_loop<T>([](T a, T b) { return wrap_sub(a, b); });
    case BinaryOp::kMul:
      return binary_loop<T>([](T a, T b) { return wrap_mul(a, b); });
    case BinaryOp::kDiv:
      return binary_loop<T>([](T a, T b) { return int_div(a, b); });
    case BinaryOp::kFloorDiv:
      return binary_loop<T>([](T a, T b) { return int_floor_div(a, b); });
    case BinaryOp::kMod:
      return binary_loop<T>([](T a, T b) { return int_mod(a, b); });
    case BinaryOp::kFmod:
      return binary_loop<T>([](T a, T b) { return int_fmod(a, b); });
    case BinaryOp::kMin:
      return binary_loop<T>([](T a, T b) { return min_of(a, b); });
    case BinaryOp::kMax:
      return binary_loop<T>([](T a, T b) { return max_of(a, b); });
    case BinaryOp::kPow:
      return binary_loop<T>([](T a, T b) { return int_pow(a, b); });
    case BinaryOp::kAnd:
      return binary_loop<T>([](T a, T b) { return static_cast<T>(a & b); });
    case BinaryOp::kOr:
      return binary_loop<T>([](T a, T b) { return static_cast<T>(a | b); });
    case BinaryOp::kXor:
      return binary_loop<T>([](T a, T b) { return static_cast<T>(a ^ b); });
    case BinaryOp::kShl:
      return binary_loop<T>([](T a, T b) { return shift_left(a, b); });
    case BinaryOp::kShr:
      return binary_loop<T>([](T a, T b) { return shift_right(a, b); });
    default:
      return comparison_kernel<T>(op);
  }
}

// Booleans as the integers 0 and 1, with every result brought back to "not zero".
BlockKernel bool_binary_kernel(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kMin:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{a.value && b.value}; });
    case BinaryOp::kOr:
    case BinaryOp::kMax:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{a.value || b.value}; });
    case BinaryOp::kXor:
    case BinaryOp::kNotEqual:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{!a.value != !b.value}; });
    case BinaryOp::kEqual:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{!a.value == !b.value}; });
    case BinaryOp::kShl:
      return compare_loop<Bool>([](Bool a, Bool) { return Bool{a.value != 0}; });
    case BinaryOp::kShr:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{a.value && !b.value}; });
    case BinaryOp::kLess:
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{!a.value && b.value}; });
    default:
      LFARM_CHECK(op == BinaryOp::kLessEqual, "not an operation on booleans");
      return compare_loop<Bool>([](Bool a, Bool b) { return Bool{!a.value || b.value}; });
  }
}

template <class To, class From>
void cast_block(const void* const* in, void* out, int64_t count) {
  const From* from = static_cast<const From*>(in[0]);
  To* to = static_cast<To*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = convert<To>(from[i]);
}

template <class T>
void select_block(const void* const* in, void* out, int64_t count) {
  const Bool* condition = static_cast<const Bool*>(in[0]);
  const T* a = static_cast<const T*>(in[1]);
  const T* b = static_cast<const T*>(in[2]);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = condition[i].value ? a[i] : b[i];
}

template <class T>
void philox_block(const void* const* in, void* out, int64_t count) {
  auto operand = [&](size_t k) { return static_cast<const int64_t*>(in[k]); };
  const int64_t *seed = operand(0), *offset = operand(1), *subsequence = operand(2),
                *word = operand(3);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    auto words = philox(static_cast<uint64_t>(seed[i]), static_cast<uint64_t>(offset[i]),
                        static_cast<uint64_t>(subsequence[i]));
    uint32_t x = words[static_cast<size_t>(word[i] & 3)];
    if constexpr (std::is_floating_point_v<T>) {
      to[i] = philox_uniform(x);
    } else {
      to[i] = x;
    }
  }
}

}  // namespace

Result<Value> eval_cast(const Context& context, const Value& in, DType to) {
  if (in.dtype() == to) return in;
  BlockKernel kernel = dispatch(to, [&](auto target) {
    return dispatch(in.dtype(), [&](auto source) -> BlockKernel {
      return &cast_block<decltype(target), decltype(source)>;
    });
  });
  return run_elementwise<1>(context, {&in}, to, kernel);
}

Result<Value> eval_unary(const Context& context, UnaryOp op, const Value& in) {
  DType to = op == UnaryOp::kIsNan || op == UnaryOp::kIsInf ? DType::kBool : in.dtype();
  BlockKernel kernel = nullptr;
  if (in.dtype() == DType::kBool) {
    LFARM_CHECK(op == UnaryOp::kNot, "not an operation on booleans");
    kernel = unary_loop<Bool>([](Bool x) { return Bool{x.value == 0}; });
  } else if (is_float(in.dtype())) {
    kernel = dispatch_float(in.dtype(),
                            [&](auto unit) { return float_unary_kernel<decltype(unit)>(op); });
  } else {
    kernel = dispatch_integer(in.dtype(),
                              [&](auto unit) { return integer_unary_kernel<decltype(unit)>(op); });
  }
  return run_elementwise<1>(context, {&in}, to, kernel);
}

Result<Value> eval_binary(const Context& context, BinaryOp op, const Value& a, const Value& b) {
  DType to = is_comparison(op) ? DType::kBool : a.dtype();
  BlockKernel kernel = nullptr;
  if (a.dtype() == DType::kBool) {
    kernel = bool_binary_kernel(op);
  } else if (is_float(a.dtype())) {
    kernel = dispatch_float(a.dtype(),
                            [&](auto unit) { return float_binary_kernel<decltype(unit)>(op); });
  } else {
    kernel = dispatch_integer(a.dtype(),
                              [&](auto unit) { return integer_binary_kernel<decltype(unit)>(op); });
  }
  return run_elementwise<2>(context, {&a, &b}, to, kernel);
}

Result<Value> eval_select(const Context& context, const Value& condition, const Value& a,
                          const Value& b) {
  BlockKernel kernel = dispatch_bytes(dtype_size(a.dtype()), [](auto unit) -> BlockKernel {
    return &select_block<decltype(unit)>;
  });
  return run_elementwise<3>(context, {&condition, &a, &b}, a.dtype(), kernel);
}

Result<Value> eval_philox(const Context& context, DType to, const std::array<const Value*, 4>& in) {
  BlockKernel kernel = to == DType::kInt64     ? &philox_block<int64_t>
                       : to == DType::kFloat32 ? &philox_block<float>
                                               : &philox_block<double>;
  return run_elementwise<4>(context, in, to, kernel);
}

}  // namespace common::interp
