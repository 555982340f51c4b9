#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

#include "common/base/contains.h"
#include "common/runtime/interpreter/interpreter_math.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {
namespace {

// An operand's axes, those that are reduced and those that stay.
struct ReducedAxes {
  Sizes kept, kept_strides, reduced, reduced_strides;
  ReducedAxes(const Value& in, std::span<const int> axes) {
    for (size_t k = 0; k < in.sizes.size(); ++k) {
      bool away = common::contains(axes, static_cast<int>(k));
      (away ? reduced : kept).push_back(in.sizes[k]);
      (away ? reduced_strides : kept_strides).push_back(in.strides[k]);
    }
  }
  std::vector<char> repeated() const {
    std::vector<char> repeated;
    for (int64_t stride : kept_strides) repeated.push_back(stride == 0);
    return repeated;
  }
};

// A fold: an accumulator, its neutral value and how it takes one more element.
template <class T>
constexpr bool kFloating = std::is_floating_point_v<T>;
template <class T, class Wide = double>
struct SumFold {
  using In = T;
  using Acc = std::conditional_t<kFloating<T>, Wide, T>;
  static Acc neutral() { return 0; }
  static Acc step(Acc a, T x) {
    if constexpr (kFloating<T>) return a + static_cast<Acc>(x);
    if constexpr (!kFloating<T>) return wrap_add(a, x);
  }
};
template <class T, class Wide = double>
struct ProdFold {
  using In = T;
  using Acc = std::conditional_t<kFloating<T>, Wide, T>;
  static Acc neutral() { return 1; }
  static Acc step(Acc a, T x) {
    if constexpr (kFloating<T>) return a * static_cast<Acc>(x);
    if constexpr (!kFloating<T>) return wrap_mul(a, x);
  }
};
template <class T>
struct MaxFold {
  using In = T;
  using Acc = T;
  static Acc neutral() {
    return kFloating<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  }
  static Acc step(Acc a, T x) { return max_of(a, x); }
};
template <class T>
struct MinFold {
  using In = T;
  using Acc = T;
  static Acc neutral() {
    return kFloating<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static Acc step(Acc a, T x) { return min_of(a, x); }
};
struct AnyFold {
  using In = Bool;
  using Acc = uint8_t;
  static Acc neutral() { return 0; }
  static Acc step(Acc a, Bool x) { return static_cast<Acc>(a | (x.value != 0)); }
};
struct AllFold {
  using In = Bool;
  using Acc = uint8_t;
  static Acc neutral() { return 1; }
  static Acc step(Acc a, Bool x) { return static_cast<Acc>(a & (x.value != 0)); }
};

// Folds a row; independent partial results hide the latency of one addition after the other.
template <class Fold>
typename Fold::Acc fold_row(typename Fold::Acc a, const typename Fold::In* from, int64_t count,
                            int64_t step) {
  int64_t i = 0;
  if constexpr (std::is_same_v<Fold, SumFold<float>> || std::is_same_v<Fold, SumFold<double>>) {
    if (count >= 16) {
      double part[8] = {};
      for (; i + 8 <= count; i += 8) {
        for (int64_t j = 0; j < 8; ++j) part[j] += static_cast<double>(from[(i + j) * step]);
      }
      a +=
          ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
    }
  }
  for (; i < count; ++i) a = Fold::step(a, from[i * step]);
  return a;
}

constexpr int64_t kColumns = 512;

// True when walking along the last kept axis touches memory in a better order.
bool by_columns(const ReducedAxes& axes, const Nest<1>& reduced) {
  return !axes.kept.empty() && axes.kept.back() >= 8 &&
         std::abs(axes.kept_strides.back()) < std::abs(reduced.steps[0]);
}

// A fold's inner loops over untyped accumulators and elements; all around them is compiled once and
// not for each of some thirty folds.
struct FoldLoops {
  void (*start)(void* sums, int64_t count) = nullptr;
  // Folds `count` elements from `first` on into one accumulator, or one into each of `count`.
  void (*row)(void* sum, const void* in, int64_t first, int64_t count, int64_t step) = nullptr;
  void (*columns)(void* sums, const void* in, int64_t first, int64_t count, int64_t step) = nullptr;
  void (*finish)(const void* sums, void* out, int64_t first, int64_t count) = nullptr;
};
constexpr size_t kAccumulatorBytes = 8;

template <class Fold>
FoldLoops fold_loops() {
  using In = typename Fold::In;
  using Acc = typename Fold::Acc;
  static_assert(sizeof(Acc) <= kAccumulatorBytes);
  FoldLoops loops;
  loops.start = [](void* sums, int64_t count) {
    std::fill_n(static_cast<Acc*>(sums), count, Fold::neutral());
  };
  loops.row = [](void* sum, const void* in, int64_t first, int64_t count, int64_t step) {
    Acc* a = static_cast<Acc*>(sum);
    *a = fold_row<Fold>(*a, static_cast<const In*>(in) + first, count, step);
  };
  loops.columns = [](void* sums, const void* in, int64_t first, int64_t count, int64_t step) {
    Acc* a = static_cast<Acc*>(sums);
    const In* line = static_cast<const In*>(in) + first;
    for (int64_t j = 0; j < count; ++j) a[j] = Fold::step(a[j], line[j * step]);
  };
  loops.finish = [](const void* sums, void* out, int64_t first, int64_t count) {
    const Acc* a = static_cast<const Acc*>(sums);
    In* to = static_cast<In*>(out) + first;
    for (int64_t j = 0; j < count; ++j) {
      if constexpr (std::is_same_v<In, Bool>) to[j] = Bool{a[j]};
      if constexpr (!std::is_same_v<In, Bool>) to[j] = static_cast<In>(a[j]);
    }
  };
  return loops;
}

Result<Value> run_fold(const Context& context, const Value& in, const ReducedAxes& axes,
                       const void* from, void* (*data_of)(Value&), const FoldLoops& loops) {
  std::vector<char> repeated = axes.repeated();
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, in.dtype(), axes.kept, repeated));
  Nest<1> reduced(axes.reduced, {axes.reduced_strides});
  void* to = data_of(out);
  Sizes kept = stored_sizes(axes.kept, repeated);
  alignas(kAccumulatorBytes) std::byte sums[kColumns * kAccumulatorBytes];
  if (!by_columns(axes, reduced) || repeated.back()) {
    for_each_position<2>(kept, {axes.kept_strides, out.strides}, {0, 0}, [&](const auto& at) {
      loops.start(sums, 1);
      reduced.rows({at[0]}, [&](const std::array<int64_t, 1>& row) {
        loops.row(sums, from, row[0], reduced.length, reduced.steps[0]);
      });
      loops.finish(sums, to, at[1], 1);
    });
    return out;
  }
  int64_t columns = kept.back();
  int64_t step = axes.kept_strides.back();
  kept.back() = (columns + kColumns - 1) / kColumns;
  std::array<Sizes, 2> strides = {axes.kept_strides, out.strides};
  strides[0].back() *= kColumns;
  strides[1].back() *= kColumns;
  int64_t block = 0;
  for_each_position<2>(kept, strides, {0, 0}, [&](const auto& at) {
    int64_t count = std::min(kColumns, columns - block * kColumns);
    block = block + 1 == kept.back() ? 0 : block + 1;
    loops.start(sums, count);
    reduced.rows({at[0]}, [&](const std::array<int64_t, 1>& row) {
      for (int64_t r = 0; r < reduced.length; ++r) {
        loops.columns(sums, from, row[0] + r * reduced.steps[0], count, step);
      }
    });
    loops.finish(sums, to, at[1], count);
  });
  return out;
}

template <class Fold>
Result<Value> fold(const Context& context, const Value& in, const ReducedAxes& axes) {
  using In = typename Fold::In;
  auto data_of = [](Value& out) -> void* { return out.mutable_data<In>(); };
  return run_fold(context, in, axes, in.data<In>(), data_of, fold_loops<Fold>());
}

// A comparable form of any element: booleans as 0 and 1, half types as float.
template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, Bool>) return static_cast<uint8_t>(x.value != 0);
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>) return widen(x);
  if constexpr (std::is_arithmetic_v<T>) return x;
}

template <class T>
int64_t extreme_of(const T* from, int64_t length, int64_t step, bool greatest) {
  int64_t best = 0;
  for (int64_t i = 0; i < length; ++i) {
    auto x = key_of(from[i * step]);
    auto leader = key_of(from[best * step]);
    if (x != x) return i;  // the first NaN wins
    if (greatest ? x > leader : x < leader) best = i;
  }
  return best;
}

Result<Value> find_extreme(const Context& context, const ReducedAxes& axes,
                           const std::function<int64_t(int64_t first)>& extreme_from) {
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, DType::kInt64, axes.kept, axes.repeated()));
  auto* to = out.mutable_data<int64_t>();
  for_each_position<2>(stored_sizes(axes.kept, axes.repeated()), {axes.kept_strides, out.strides},
                       {0, 0}, [&](const auto& at) { to[at[1]] = extreme_from(at[0]); });
  return out;
}
template <class T>
Result<Value> find_extreme(const Context& context, const Value& in, const ReducedAxes& axes,
                           bool greatest) {
  return find_extreme(context, axes, [&](int64_t first) {
    return extreme_of(in.data<T>() + first, axes.reduced[0], axes.reduced_strides[0], greatest);
  });
}

// Walks all lines along `axis` of an operand and a result of the same sizes:
// f(offset of the first element of either).
// Out of line for the sake of compiling: it is called for each operation and type.
using LineVisit = std::function<void(int64_t source, int64_t target)>;
void for_each_line(const Value& in, const Value& out, size_t axis, const LineVisit& f) {
  Sizes sizes = in.sizes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (in.strides[k] == 0 && out.strides[k] == 0) sizes[k] = 1;  // stored once
  }
  sizes[axis] = in.sizes[axis] == 0 ? 0 : 1;
  for_each_position<2>(sizes, {in.strides, out.strides}, {0, 0},
                       [&](const auto& at) { f(at[0], at[1]); });
}

// A result of the operand's sizes but for `axis`, which has `length` elements. It repeats where the
// operand does, but not along `axis`.
Result<Value> allocate_lines(const Context& context, DType dtype, const Value& in, size_t axis,
                             int64_t length) {
  std::vector<char> repeated = repeated_axes(std::array<const Value*, 1>{&in});
  repeated[axis] = 0;
  auto sizes = in.sizes;
  sizes[axis] = length;
  return allocate(context, dtype, sizes, repeated);
}

double add_in_log(double a, double b) {
  double most = max_of(a, b);
  if (most != most || std::isinf(most)) return most;
  return most + std::log1p(std::exp(min_of(a, b) - most));
}

template <class T>
void scan_line(ScanOp op, const T* from, int64_t step, T* to, int64_t target_step, int64_t length) {
  auto run = [&](auto a, auto next) {
    for (int64_t i = 0; i < length; ++i) {
      a = i == 0 ? static_cast<decltype(a)>(from[0]) : next(a, from[i * step]);
      to[i * target_step] = static_cast<T>(a);
    }
  };
  switch (op) {
    case ScanOp::kSum:
      return run(typename SumFold<T>::Acc{}, SumFold<T>::step);
    case ScanOp::kProd:
      return run(typename ProdFold<T>::Acc{}, ProdFold<T>::step);
    case ScanOp::kMax:
      return run(T{}, MaxFold<T>::step);
    case ScanOp::kMin:
      return run(T{}, MinFold<T>::step);
    case ScanOp::kLogSumExp:
      return run(double{}, [](double a, T x) { return add_in_log(a, static_cast<double>(x)); });
  }
}

template <class T>
void softmax_line(const T* from, int64_t step, T* to, int64_t target_step, int64_t length,
                  bool log) {
  T most = -std::numeric_limits<T>::infinity();
  for (int64_t i = 0; i < length; ++i) most = max_of(most, from[i * step]);
  auto most_wide = static_cast<double>(most);
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    sum += std::exp(static_cast<double>(from[i * step]) - most_wide);
  }
  double log_sum = std::log(sum);
  for (int64_t i = 0; i < length; ++i) {
    double x = static_cast<double>(from[i * step]) - most_wide;
    to[i * target_step] = static_cast<T>(log ? x - log_sum : std::exp(x) / sum);
  }
}

template <class T>
void norm_row(const T* from, T* to, int64_t length, const NormAttr& attr) {
  auto n = static_cast<double>(length);
  double mean = attr.centred ? fold_row<SumFold<T>>(0, from, length, 1) / n : 0;
  double squares = 0;
  for (int64_t i = 0; i < length; ++i) {
    double x = static_cast<double>(from[i]) - mean;
    squares += x * x;
  }
  double scale = 1 / std::sqrt(squares / n + attr.epsilon);
  for (int64_t i = 0; i < length; ++i) {
    to[i] = static_cast<T>((static_cast<double>(from[i]) - mean) * scale);
  }
}

}  // namespace

Result<Value> eval_reduce(const Context& context, const ReduceAttr& attr, const Value& in) {
  ReducedAxes axes(in, attr.axes);
  switch (attr.op) {
    case ReduceOp::kAny:
      return fold<AnyFold>(context, in, axes);
    case ReduceOp::kAll:
      return fold<AllFold>(context, in, axes);
    case ReduceOp::kArgmax:
    case ReduceOp::kArgmin:
      if (in.dtype() == DType::kBool) {
        return find_extreme<Bool>(context, in, axes, attr.op == ReduceOp::kArgmax);
      }
      return dispatch_number(in.dtype(), [&](auto unit) {
        return find_extreme<decltype(unit)>(context, in, axes, attr.op == ReduceOp::kArgmax);
      });
    default:
      break;
  }
  if (context.narrow && in.dtype() == DType::kFloat32) {
    if (attr.op == ReduceOp::kSum) return fold<SumFold<float, float>>(context, in, axes);
    if (attr.op == ReduceOp::kProd) return fold<ProdFold<float, float>>(context, in, axes);
  }
  return dispatch_number(in.dtype(), [&](auto unit) {
    using T = decltype(unit);
    switch (attr.op) {
      case ReduceOp::kSum:
        return fold<SumFold<T>>(context, in, axes);
      case ReduceOp::kProd:
        return fold<ProdFold<T>>(context, in, axes);
      case ReduceOp::kMax:
        return fold<MaxFold<T>>(context, in, axes);
      default:
        return fold<MinFold<T>>(context, in, axes);
    }
  });
}

Result<Value> eval_scan(const Context& context, const ScanAttr& attr, const Value& in) {
  auto axis = static_cast<size_t>(attr.axis);
  LFARM_ASSIGN_OR_RETURN(Value out, allocate_lines(context, in.dtype(), in, axis, in.sizes[axis]));
  dispatch_number(in.dtype(), [&](auto unit) {
    using T = decltype(unit);
    const T* from = in.data<T>();
    T* to = out.mutable_data<T>();
    for_each_line(in, out, axis, [&](int64_t source, int64_t target) {
      scan_line(attr.op, from + source, in.strides[axis], to + target, out.strides[axis],
                in.sizes[axis]);
    });
  });
  return out;
}

Result<Value> eval_sort(const Context& context, const SortAttr& attr, const Value& in) {
  auto axis = static_cast<size_t>(attr.axis);
  const int64_t length = in.sizes[axis], count = attr.count == 0 ? length : attr.count;
  LFARM_ASSIGN_OR_RETURN(Value out, allocate_lines(context, DType::kInt64, in, axis, count));
  auto* to = out.mutable_data<int64_t>();
  std::vector<int64_t> order(static_cast<size_t>(length));
  auto sort = [&](auto unit) {
    using T = decltype(unit);
    if constexpr (!std::is_same_v<T, Complex>) {
      using Key = decltype(key_of(T{}));
      const T* from = in.data<T>();
      std::vector<Key> keys(static_cast<size_t>(length));
      auto before = [&](int64_t i, int64_t j) {
        Key a = keys[static_cast<size_t>(attr.descending ? j : i)];
        Key b = keys[static_cast<size_t>(attr.descending ? i : j)];
        return a < b || (b != b && a == a);  // NaN is the greatest
      };
      for_each_line(in, out, axis, [&](int64_t source, int64_t target) {
        for (int64_t i = 0; i < length; ++i) {
          order[static_cast<size_t>(i)] = i;
          keys[static_cast<size_t>(i)] = key_of(from[source + i * in.strides[axis]]);
        }
        std::stable_sort(order.begin(), order.end(), before);
        for (int64_t i = 0; i < count; ++i) {
          to[target + i * out.strides[axis]] = order[static_cast<size_t>(i)];
        }
      });
    }
  };
  dispatch(in.dtype(), sort);
  return out;
}

Result<Value> eval_softmax(const Context& context, const SoftmaxAttr& attr, const Value& in) {
  auto axis = static_cast<size_t>(attr.axis);
  LFARM_ASSIGN_OR_RETURN(Value out, allocate_lines(context, in.dtype(), in, axis, in.sizes[axis]));
  dispatch_float(in.dtype(), [&](auto unit) {
    using T = decltype(unit);
    const T* from = in.data<T>();
    T* to = out.mutable_data<T>();
    for_each_line(in, out, axis, [&](int64_t source, int64_t target) {
      softmax_line(from + source, in.strides[axis], to + target, out.strides[axis], in.sizes[axis],
                   attr.log);
    });
  });
  return out;
}

Result<Value> eval_norm(const Context& context, const NormAttr& attr, const Value& in) {
  LFARM_ASSIGN_OR_RETURN(Value source, contiguous(context, in));
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, in.dtype(), in.sizes));
  size_t first = in.sizes.size() - static_cast<size_t>(attr.axes);
  int64_t length = count_of(std::span(in.sizes).subspan(first));
  int64_t rows = count_of(std::span(in.sizes).first(first));
  dispatch_float(in.dtype(), [&](auto unit) {
    using T = decltype(unit);
    const T* from = source.data<T>();
    T* to = out.mutable_data<T>();
    for (int64_t r = 0; r < rows; ++r) norm_row(from + r * length, to + r * length, length, attr);
  });
  return out;
}

}  // namespace common::interp
