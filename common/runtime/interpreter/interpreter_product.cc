// Sums of products: multiply-and-sum and einsum, without a stored product. `Sum` is the type they
// accumulate in: double, or float for a plain lowering's error.
#include <algorithm>
#include <cstring>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {
namespace {

// One loop over both operands; a stride of 0 means that the operand repeats along it.
struct Loop {
  int64_t size = 1;
  int64_t a = 0;
  int64_t b = 0;
};
using Loops = std::vector<Loop>;

// out[kept...] = sum over `summed` of a * b; `kept` in the result's row-major order.
struct Problem {
  Loops kept;
  Loops summed;
  // Whether one accumulator takes all products of a float32 sum, one after the other, as the loops
  // that kernels are made of do; else parts are summed first, which rounds less.
  bool in_order = false;
};

int64_t count_of(const Loops& loops) {
  int64_t count = 1;
  for (const Loop& loop : loops) count *= loop.size;
  return count;
}
Sizes sizes_of(const Loops& loops) {
  Sizes sizes;
  for (const Loop& loop : loops) sizes.push_back(loop.size);
  return sizes;
}
Sizes strides_of(const Loops& loops, int64_t Loop::*operand) {
  Sizes strides;
  for (const Loop& loop : loops) strides.push_back(loop.*operand);
  return strides;
}
Nest<2> nest_of(const Loops& loops) {
  return Nest<2>(sizes_of(loops), {strides_of(loops, &Loop::a), strides_of(loops, &Loop::b)});
}
// Every offset that a list of loops visits, in row-major order.
Sizes offsets_of(const Loops& loops, int64_t Loop::*operand) {
  Sizes offsets;
  for_each_position<1>(sizes_of(loops), {strides_of(loops, operand)}, {0},
                       [&](const auto& at) { offsets.push_back(at[0]); });
  return offsets;
}

template <class Sum, class T>
Sum to(T x) {
  return static_cast<Sum>(widen(x));
}

// Where sums go, of whatever type. A pointer per row keeps the loops below from being compiled once
// for each type of result.
template <class Sum>
struct Target {
  void* data = nullptr;
  void (*run)(void* out, int64_t first, const Sum* sums, int64_t count) = nullptr;
  void (*scatter)(void* out, int64_t base, const int64_t* at, const Sum* sums,
                  int64_t count) = nullptr;
};
template <class Sum, class Out>
void put_run(void* out, int64_t first, const Sum* sums, int64_t count) {
  Out* to = static_cast<Out*>(out) + first;
  for (int64_t j = 0; j < count; ++j) to[j] = static_cast<Out>(sums[j]);
}
template <class Sum, class Out>
void put_scattered(void* out, int64_t base, const int64_t* at, const Sum* sums, int64_t count) {
  Out* to = static_cast<Out*>(out) + base;
  for (int64_t j = 0; j < count; ++j) to[at[j]] = static_cast<Out>(sums[j]);
}
template <class Sum, class Out>
Target<Sum> target_of(Value& out) {
  return {out.mutable_data<Out>(), &put_run<Sum, Out>, &put_scattered<Sum, Out>};
}

// ---- plain loops --------------------------------------------------------------------------

// Two operands at one place of the loops: elements `a` and `b` of them, which a row walks along.
struct Row {
  const void* left = nullptr;
  const void* right = nullptr;
  int64_t a = 0, a_step = 0;
  int64_t b = 0, b_step = 0;
};

// The two ways to add up a row, of whatever types; all around them is compiled once per `Sum`.
template <class Sum>
struct RowSums {
  // `before` and the products.
  Sum (*dot)(Sum before, const Row& row, int64_t count) = nullptr;
  // sums[j] += the product at column j, for each column.
  void (*add)(const Row& row, int64_t columns, Sum* sums) = nullptr;
};

// Rows without gaps, as weights have: two vectors of `Bytes` bytes of sums.
template <class Sum, int Bytes, class A, class B>
__attribute__((always_inline)) inline Sum dot_vectors(const A* a, const B* b, int64_t count) {
  typedef Sum Vector __attribute__((vector_size(Bytes)));
  constexpr int kWidth = Bytes / static_cast<int>(sizeof(Sum));
  Vector low = {};
  Vector high = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    Vector a0, a1, b0, b1;
    for (int j = 0; j < kWidth; ++j) {
      a0[j] = to<Sum>(a[i + j]);
      b0[j] = to<Sum>(b[i + j]);
      a1[j] = to<Sum>(a[i + kWidth + j]);
      b1[j] = to<Sum>(b[i + kWidth + j]);
    }
    low += a0 * b0;
    high += a1 * b1;
  }
  low += high;
  Sum sum = 0;
  for (int j = 0; j < kWidth; ++j) sum += low[j];
  for (; i < count; ++i) sum += to<Sum>(a[i]) * to<Sum>(b[i]);
  return sum;
}

template <class Sum, int Bytes, class A, class B>
__attribute__((always_inline)) inline Sum dot(const Row& row, int64_t count) {
  const A* a = static_cast<const A*>(row.left) + row.a;
  const B* b = static_cast<const B*>(row.right) + row.b;
  if (row.a_step == 1 && row.b_step == 1) return dot_vectors<Sum, Bytes>(a, b, count);
  Sum part[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t j = 0; j < 4; ++j) {
      part[j] += to<Sum>(a[(i + j) * row.a_step]) * to<Sum>(b[(i + j) * row.b_step]);
    }
  }
  Sum sum = (part[0] + part[1]) + (part[2] + part[3]);
  for (; i < count; ++i) sum += to<Sum>(a[i * row.a_step]) * to<Sum>(b[i * row.b_step]);
  return sum;
}

template <class Sum, class A, class B>
Sum dot_plain(Sum before, const Row& row, int64_t count) {
  return before + dot<Sum, 16, A, B>(row, count);
}
#if defined(__x86_64__)
template <class Sum, class A, class B>
__attribute__((target("avx2,fma"))) Sum dot_avx2(Sum before, const Row& row, int64_t count) {
  return before + dot<Sum, 32, A, B>(row, count);
}
#endif

template <class Sum, class A, class B>
Sum dot_in_order(Sum sum, const Row& row, int64_t count) {
  const A* a = static_cast<const A*>(row.left) + row.a;
  const B* b = static_cast<const B*>(row.right) + row.b;
  for (int64_t i = 0; i < count; ++i) {
    sum += to<Sum>(a[i * row.a_step]) * to<Sum>(b[i * row.b_step]);
  }
  return sum;
}

template <class Sum, class A, class B>
auto best_dot(bool in_order) {
  if (in_order) return &dot_in_order<Sum, A, B>;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &dot_avx2<Sum, A, B>;
#endif
  return &dot_plain<Sum, A, B>;
}

template <class Sum, class A, class B>
void add_row(const Row& row, int64_t columns, Sum* sums) {
  const A* a = static_cast<const A*>(row.left) + row.a;
  const B* b = static_cast<const B*>(row.right) + row.b;
  for (int64_t j = 0; j < columns; ++j) {
    sums[j] += to<Sum>(a[j * row.a_step]) * to<Sum>(b[j * row.b_step]);
  }
}

constexpr int64_t kColumns = 512;

template <class Sum>
void direct_sums(const Problem& problem, const void* a, const void* b, const RowSums<Sum>& row_sums,
                 const Target<Sum>& target) {
  Nest<2> summed = nest_of(problem.summed);
  Loops outer = problem.kept;
  Loop column = outer.empty() ? Loop{} : outer.back();
  // Walk along the result's last axis when the operands lie closer together that way.
  bool by_columns =
      column.size >= 8 && std::max(std::abs(column.a), std::abs(column.b)) <
                              std::max(std::abs(summed.steps[0]), std::abs(summed.steps[1]));
  if (by_columns) outer.pop_back();
  int64_t width = by_columns ? column.size : 1;
  int64_t index = 0;
  Sum sums[kColumns];
  for_each_position<2>(
      sizes_of(outer), {strides_of(outer, &Loop::a), strides_of(outer, &Loop::b)}, {0, 0},
      [&](const std::array<int64_t, 2>& at) {
        for (int64_t first = 0; first < width; first += kColumns) {
          int64_t count = std::min(kColumns, width - first);
          std::fill_n(sums, count, Sum{0});
          summed.rows(
              {at[0] + first * column.a * by_columns, at[1] + first * column.b * by_columns},
              [&](const std::array<int64_t, 2>& from) {
                if (!by_columns) {
                  Row row{a, b, from[0], summed.steps[0], from[1], summed.steps[1]};
                  sums[0] = row_sums.dot(sums[0], row, summed.length);
                  return;
                }
                Row row{a, b, from[0], column.a, from[1], column.b};
                for (int64_t r = 0; r < summed.length; ++r) {
                  row_sums.add(row, count, sums);
                  row.a += summed.steps[0];
                  row.b += summed.steps[1];
                }
              });
          target.run(target.data, index, sums, count);
          index += count;
        }
      });
}

// ---- blocked matrix product ---------------------------------------------------------------

// c[r * ldc + j] += sum over p < depth of a[p * rows + r] * b[p * columns + j], where c itself
// takes one product after the other if `onward`.
template <class Sum>
struct Tile {
  int64_t rows = 0;
  int64_t columns = 0;
  void (*kernel)(const Sum* a, const Sum* b, int64_t depth, Sum* c, int64_t ldc,
                 bool onward) = nullptr;
};

// Two vectors of `Bytes` bytes wide, `Rows` high, held in registers.
template <class Sum, int Bytes, int Rows>
__attribute__((always_inline)) inline void tile(const Sum* a, const Sum* b, int64_t depth, Sum* c,
                                                int64_t ldc, bool onward) {
  typedef Sum Vector __attribute__((vector_size(Bytes)));
  constexpr int kWidth = Bytes / static_cast<int>(sizeof(Sum));
  Vector left[Rows] = {};
  Vector right[Rows] = {};
  for (int r = 0; onward && r < Rows; ++r) {
    std::memcpy(&left[r], c + r * ldc, sizeof left[r]);
    std::memcpy(&right[r], c + r * ldc + kWidth, sizeof right[r]);
  }
  for (int64_t p = 0; p < depth; ++p) {
    Vector b0;
    Vector b1;
    std::memcpy(&b0, b, sizeof b0);
    std::memcpy(&b1, b + kWidth, sizeof b1);
    for (int r = 0; r < Rows; ++r) {
      left[r] += a[r] * b0;
      right[r] += a[r] * b1;
    }
    a += Rows;
    b += 2 * kWidth;
  }
  for (int r = 0; r < Rows; ++r) {
    Vector c0 = {};
    Vector c1 = {};
    Sum* row = c + r * ldc;
    if (!onward) {
      std::memcpy(&c0, row, sizeof c0);
      std::memcpy(&c1, row + kWidth, sizeof c1);
    }
    c0 += left[r];
    c1 += right[r];
    std::memcpy(row, &c0, sizeof c0);
    std::memcpy(row + kWidth, &c1, sizeof c1);
  }
}

template <class Sum>
void tile_plain(const Sum* a, const Sum* b, int64_t depth, Sum* c, int64_t ldc, bool onward) {
  tile<Sum, 16, 4>(a, b, depth, c, ldc, onward);
}
#if defined(__x86_64__)
template <class Sum>
__attribute__((target("avx2,fma"))) void tile_avx2(const Sum* a, const Sum* b, int64_t depth,
                                                   Sum* c, int64_t ldc, bool onward) {
  tile<Sum, 32, 4>(a, b, depth, c, ldc, onward);
}
template <class Sum>
__attribute__((target("avx512f,fma"))) void tile_avx512(const Sum* a, const Sum* b, int64_t depth,
                                                        Sum* c, int64_t ldc, bool onward) {
  tile<Sum, 64, 8>(a, b, depth, c, ldc, onward);
}
#endif

template <class Sum>
Tile<Sum> best_tile() {
  constexpr int64_t kPair = 32 / sizeof(Sum);  // two vectors of 16 bytes
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {8, 4 * kPair, &tile_avx512<Sum>};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {4, 2 * kPair, &tile_avx2<Sum>};
  }
#endif
  return {4, kPair, &tile_plain<Sum>};
}

// A row or column panel of the packed operand from element `first` on: `lanes` of `positions` by
// `depth`, zero-padded.
template <class Sum, class T>
void pack(const void* operand, int64_t first, std::span<const int64_t> positions,
          std::span<const int64_t> depths, size_t lanes, Sum* panel) {
  const T* from = static_cast<const T*>(operand) + first;
  size_t n = positions.size();
  if (n < lanes) std::fill_n(panel, lanes * depths.size(), Sum{0});
  constexpr size_t kLanesMax = 64;
  LFARM_CHECK(lanes <= kLanesMax, "the tile is wider than any vector unit's");
  const T* lines[kLanesMax];
  for (size_t j = 0; j < n; ++j) lines[j] = from + positions[j];
  for (size_t p = 0; p < depths.size(); ++p) {
    int64_t depth = depths[p];
    for (size_t j = 0; j < n; ++j) panel[p * lanes + j] = to<Sum>(lines[j][depth]);
  }
}

// An operand of whatever type; packing is all that reads it.
template <class Sum>
struct Packed {
  const void* data = nullptr;
  decltype(&pack<Sum, float>) pack = nullptr;
};

// The result's axes by which operand they belong to.
struct Roles {
  Loops batch, rows, columns;
  std::vector<char> role;  // of each kept loop: 0 batch, 1 rows, 2 columns
  explicit Roles(const Loops& kept) {
    for (const Loop& loop : kept) {
      bool in_a = loop.a != 0;
      bool in_b = loop.b != 0;
      role.push_back(in_a == in_b ? 0 : in_a ? 1 : 2);
      (in_a == in_b ? batch : in_a ? rows : columns).push_back(loop);
    }
  }
};

template <class Sum>
class MatrixProduct {
 public:
  MatrixProduct(const Problem& problem, const Roles& roles)
      : tile_(best_tile<Sum>()),
        in_order_(problem.in_order),
        depth_a_(offsets_of(problem.summed, &Loop::a)),
        depth_b_(offsets_of(problem.summed, &Loop::b)),
        rows_(offsets_of(roles.rows, &Loop::a)),
        columns_(offsets_of(roles.columns, &Loop::b)) {}

  Status reserve() {
    auto take = [](int64_t count, HostTensor& tensor) -> Status {
      constexpr auto kBytes = static_cast<int64_t>(sizeof(Sum));
      LFARM_ASSIGN_OR_RETURN(tensor, HostTensor::uninitialized(DType::kUint8, {count * kBytes}));
      return {};
    };
    // Small products take small blocks, which stay in the nearest cache.
    auto part = [](const Sizes& all, int64_t most, int64_t unit) {
      auto count = static_cast<int64_t>(all.size());
      return std::min(most, (count + unit - 1) / unit * unit);
    };
    int64_t high = part(rows_, kRows, tile_.rows);
    int64_t wide = part(columns_, kColumnsAtOnce, tile_.columns);
    int64_t deep = part(depth_a_, kDepth, 1);
    row_length_ = wide;
    LFARM_RETURN_IF_ERROR(take(high * deep, a_));
    LFARM_RETURN_IF_ERROR(take(wide * deep, b_));
    return take(high * wide, c_);
  }

  // One matrix: its operands' and its result's first elements, and where rows and columns go.
  struct Place {
    int64_t a = 0, b = 0, out = 0;
  };
  void run(const Packed<Sum>& a, const Packed<Sum>& b, const Place& place, const Sizes& rows,
           const Sizes& columns, const Target<Sum>& target) {
    auto m = static_cast<int64_t>(rows_.size());
    auto n = static_cast<int64_t>(columns_.size());
    for (int64_t j = 0; j < n; j += kColumnsAtOnce) {
      int64_t wide = std::min(kColumnsAtOnce, n - j);
      for (int64_t i = 0; i < m; i += kRows) {
        int64_t high = std::min(kRows, m - i);
        block(a, b, place, i, high, j, wide);
        const Sum* c = data(c_);
        for (int64_t r = 0; r < high; ++r) {
          target.scatter(target.data, place.out + rows[static_cast<size_t>(i + r)],
                         columns.data() + j, c + r * row_length_, wide);
        }
      }
    }
  }

 private:
  // Sized for a 2 MiB second-level cache; multiples of every tile.
  static constexpr int64_t kRows = 128;
  static constexpr int64_t kColumnsAtOnce = 256;
  static constexpr int64_t kDepth = 256;

  static Sum* data(HostTensor& t) { return reinterpret_cast<Sum*>(t.mutable_bytes().data()); }

  void block(const Packed<Sum>& a, const Packed<Sum>& b, const Place& place, int64_t i,
             int64_t high, int64_t j, int64_t wide) {
    Sum* c = data(c_);
    std::fill_n(c, (high + tile_.rows - 1) / tile_.rows * tile_.rows * row_length_, Sum{0});
    auto depth = static_cast<int64_t>(depth_a_.size());
    for (int64_t p = 0; p < depth; p += kDepth) {
      int64_t deep = std::min(kDepth, depth - p);
      pack_panels(a, place.a, rows_, i, high, depth_a_, p, deep, tile_.rows, data(a_));
      pack_panels(b, place.b, columns_, j, wide, depth_b_, p, deep, tile_.columns, data(b_));
      for (int64_t k = 0; k < wide; k += tile_.columns) {
        for (int64_t r = 0; r < high; r += tile_.rows) {
          tile_.kernel(data(a_) + r * deep, data(b_) + k * deep, deep, c + r * row_length_ + k,
                       row_length_, in_order_);
        }
      }
    }
  }

  static void pack_panels(const Packed<Sum>& from, int64_t origin, const Sizes& positions,
                          int64_t first, int64_t count, const Sizes& depths, int64_t begin,
                          int64_t deep, int64_t lanes, Sum* panels) {
    auto at = [](int64_t x) { return static_cast<size_t>(x); };
    auto depth = std::span(depths).subspan(at(begin), at(deep));
    for (int64_t j = 0; j < count; j += lanes) {
      auto panel = std::span(positions).subspan(at(first + j), at(std::min(lanes, count - j)));
      from.pack(from.data, origin, panel, depth, at(lanes), panels + j * deep);
    }
  }

  Tile<Sum> tile_;
  bool in_order_;
  int64_t row_length_ = 0;  // of c_
  Sizes depth_a_, depth_b_, rows_, columns_;
  HostTensor a_, b_, c_;
};

template <class Sum>
Status matrix_sums(const Problem& problem, const Roles& roles, const Packed<Sum>& a,
                   const Packed<Sum>& b, const Target<Sum>& target) {
  Sizes strides = row_major_strides(sizes_of(problem.kept));
  Sizes by_role[3];  // the result's strides of batch, rows, columns
  for (size_t k = 0; k < strides.size(); ++k) {
    by_role[static_cast<size_t>(roles.role[k])].push_back(strides[k]);
  }
  auto result_offsets = [](const Loops& loops, const Sizes& target) {
    Sizes offsets;
    for_each_position<1>(sizes_of(loops), {target}, {0},
                         [&](const auto& at) { offsets.push_back(at[0]); });
    return offsets;
  };
  Sizes rows = result_offsets(roles.rows, by_role[1]);
  Sizes columns = result_offsets(roles.columns, by_role[2]);
  MatrixProduct<Sum> product(problem, roles);
  LFARM_RETURN_IF_ERROR(product.reserve());
  for_each_position<3>(
      sizes_of(roles.batch),
      {strides_of(roles.batch, &Loop::a), strides_of(roles.batch, &Loop::b), by_role[0]}, {0, 0, 0},
      [&](const std::array<int64_t, 3>& at) {
        product.run(a, b, {at[0], at[1], at[2]}, rows, columns, target);
      });
  return {};
}

// Storage dtypes that reach here: f16, bf16, f32, f64.
template <class F>
auto dispatch_stored_float(DType dtype, F&& f) {
  if (dtype == DType::kFloat16) return f(Half{});
  if (dtype == DType::kBfloat16) return f(Bfloat{});
  return dispatch_float(dtype, f);
}

template <class Sum>
Status sums(const Problem& problem, const Value& a, const Value& b, const Target<Sum>& target) {
  Roles roles(problem.kept);
  int64_t rows = count_of(roles.rows);
  int64_t columns = count_of(roles.columns);
  if (rows >= 2 && columns >= 2 && rows * columns >= 16 && count_of(problem.summed) >= 4) {
    auto packed = [](const Value& operand) {
      return dispatch_stored_float(operand.dtype(), [&](auto unit) -> Packed<Sum> {
        using T = decltype(unit);
        return {operand.data<T>(), &pack<Sum, T>};
      });
    };
    return matrix_sums<Sum>(problem, roles, packed(a), packed(b), target);
  }
  dispatch_stored_float(a.dtype(), [&](auto left) {
    using A = decltype(left);
    dispatch_stored_float(b.dtype(), [&](auto right) {
      using B = decltype(right);
      direct_sums<Sum>(problem, a.data<A>(), b.data<B>(),
                       {best_dot<Sum, A, B>(problem.in_order), &add_row<Sum, A, B>}, target);
    });
  });
  return {};
}

// `sizes` are those of the result, one per kept loop.
Result<Value> evaluate(const Context& context, Problem problem, const Value& a, const Value& b,
                       DType to) {
  std::vector<char> repeated;
  for (const Loop& loop : problem.kept) repeated.push_back(loop.a == 0 && loop.b == 0);
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, to, sizes_of(problem.kept), repeated));
  if (out.storage.elements() == 0) return out;
  for (size_t k = 0; k < repeated.size(); ++k) {
    if (repeated[k]) problem.kept[k].size = 1;
  }
  if (count_of(problem.summed) == 0) {
    std::memset(out.storage.mutable_bytes().data(), 0, out.storage.bytes().size());
    return out;
  }
  Status status;
  problem.in_order = context.rounding != 0;
  if (to == DType::kFloat32 && context.narrow) {
    status = sums<float>(problem, a, b, target_of<float, float>(out));
  } else if (to == DType::kFloat32) {
    status = sums<double>(problem, a, b, target_of<double, float>(out));
  } else {
    status = sums<double>(problem, a, b, target_of<double, double>(out));
  }
  if (!status.ok()) return status.error();
  return out;
}

}  // namespace

Result<Value> eval_product_sum(const Context& context, const Value& a, const Value& b,
                               std::span<const int> axes, DType to) {
  Problem problem;
  for (size_t k = 0; k < a.sizes.size(); ++k) {
    bool away = common::contains(axes, static_cast<int>(k));
    (away ? problem.summed : problem.kept).push_back({a.sizes[k], a.strides[k], b.strides[k]});
  }
  return evaluate(context, std::move(problem), a, b, to);
}

Result<Value> eval_contract(const Context& context, const ContractAttr& attr, const Value& a,
                            const Value& b, DType to) {
  auto loop_of = [&](int label) {
    Loop loop;
    for (size_t k = 0; k < attr.a.size(); ++k) {
      if (attr.a[k] == label) loop = {a.sizes[k], a.strides[k], loop.b};
    }
    for (size_t k = 0; k < attr.b.size(); ++k) {
      if (attr.b[k] == label) loop = {b.sizes[k], loop.a, b.strides[k]};
    }
    return loop;
  };
  Problem problem;
  for (int label : attr.out) problem.kept.push_back(loop_of(label));
  std::vector<int> labels = attr.a;
  labels.insert(labels.end(), attr.b.begin(), attr.b.end());
  std::vector<int> seen = attr.out;
  for (int label : labels) {
    if (common::contains(seen, label)) continue;
    seen.push_back(label);
    problem.summed.push_back(loop_of(label));
  }
  return evaluate(context, std::move(problem), a, b, to);
}

}  // namespace common::interp
