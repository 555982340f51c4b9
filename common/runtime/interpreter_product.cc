// Sums of products: multiply-and-sum and einsum, without a stored product. `Sum` is the type they
// accumulate in: double, or float for a plain lowering's error.
#include <algorithm>
#include <cstring>

#include "common/base/cat.h"
#include "common/runtime/interpreter_ops.h"

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

// ---- plain loops --------------------------------------------------------------------------

template <class Sum, class T>
Sum to(T x) {
  return static_cast<Sum>(widen(x));
}

template <class Sum, class A, class B>
Sum dot_row(const A* a, int64_t a_step, const B* b, int64_t b_step, int64_t count) {
  Sum part[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t j = 0; j < 4; ++j) {
      part[j] += to<Sum>(a[(i + j) * a_step]) * to<Sum>(b[(i + j) * b_step]);
    }
  }
  Sum sum = (part[0] + part[1]) + (part[2] + part[3]);
  for (; i < count; ++i) sum += to<Sum>(a[i * a_step]) * to<Sum>(b[i * b_step]);
  return sum;
}

constexpr int64_t kColumns = 512;

// store(index, sum) for every result element.
template <class Sum, class A, class B, class Store>
void direct_sums(const Problem& problem, const A* a, const B* b, Store&& store) {
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
              [&](const std::array<int64_t, 2>& row) {
                const A* x = a + row[0];
                const B* y = b + row[1];
                if (!by_columns) {
                  sums[0] += dot_row<Sum>(x, summed.steps[0], y, summed.steps[1], summed.length);
                  return;
                }
                for (int64_t r = 0; r < summed.length; ++r) {
                  const A* p = x + r * summed.steps[0];
                  const B* q = y + r * summed.steps[1];
                  for (int64_t j = 0; j < count; ++j) {
                    sums[j] += to<Sum>(p[j * column.a]) * to<Sum>(q[j * column.b]);
                  }
                }
              });
          for (int64_t j = 0; j < count; ++j) store(index++, sums[j]);
        }
      });
}

// ---- blocked matrix product ---------------------------------------------------------------

// c[r * ldc + j] += sum over p < depth of a[p * rows + r] * b[p * columns + j]
template <class Sum>
struct Tile {
  int64_t rows = 0;
  int64_t columns = 0;
  void (*kernel)(const Sum* a, const Sum* b, int64_t depth, Sum* c, int64_t ldc) = nullptr;
};

// Two vectors of `Bytes` bytes wide, `Rows` high, held in registers.
template <class Sum, int Bytes, int Rows>
__attribute__((always_inline)) inline void tile(const Sum* a, const Sum* b, int64_t depth, Sum* c,
                                                int64_t ldc) {
  typedef Sum Vector __attribute__((vector_size(Bytes)));
  constexpr int kWidth = Bytes / static_cast<int>(sizeof(Sum));
  Vector left[Rows] = {};
  Vector right[Rows] = {};
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
    Vector c0;
    Vector c1;
    Sum* row = c + r * ldc;
    std::memcpy(&c0, row, sizeof c0);
    std::memcpy(&c1, row + kWidth, sizeof c1);
    c0 += left[r];
    c1 += right[r];
    std::memcpy(row, &c0, sizeof c0);
    std::memcpy(row + kWidth, &c1, sizeof c1);
  }
}

template <class Sum>
void tile_plain(const Sum* a, const Sum* b, int64_t depth, Sum* c, int64_t ldc) {
  tile<Sum, 16, 4>(a, b, depth, c, ldc);
}
#if defined(__x86_64__)
template <class Sum>
__attribute__((target("avx2,fma"))) void tile_avx2(const Sum* a, const Sum* b, int64_t depth,
                                                   Sum* c, int64_t ldc) {
  tile<Sum, 32, 4>(a, b, depth, c, ldc);
}
template <class Sum>
__attribute__((target("avx512f,fma"))) void tile_avx512(const Sum* a, const Sum* b, int64_t depth,
                                                        Sum* c, int64_t ldc) {
  tile<Sum, 64, 8>(a, b, depth, c, ldc);
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

// A row or column panel of the packed operand: `lanes` of `positions` by `depth`, zero-padded.
template <class Sum, class T>
void pack(const T* from, std::span<const int64_t> positions, std::span<const int64_t> depths,
          size_t lanes, Sum* panel) {
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

  // store(row, column, sum) for every element of one matrix.
  template <class A, class B, class Store>
  void run(const A* a, const B* b, Store&& store) {
    auto m = static_cast<int64_t>(rows_.size());
    auto n = static_cast<int64_t>(columns_.size());
    for (int64_t j = 0; j < n; j += kColumnsAtOnce) {
      int64_t wide = std::min(kColumnsAtOnce, n - j);
      for (int64_t i = 0; i < m; i += kRows) {
        int64_t high = std::min(kRows, m - i);
        block(a, b, i, high, j, wide);
        const Sum* c = data(c_);
        for (int64_t r = 0; r < high; ++r) {
          for (int64_t k = 0; k < wide; ++k) store(i + r, j + k, c[r * row_length_ + k]);
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

  template <class A, class B>
  void block(const A* a, const B* b, int64_t i, int64_t high, int64_t j, int64_t wide) {
    Sum* c = data(c_);
    std::fill_n(c, (high + tile_.rows - 1) / tile_.rows * tile_.rows * row_length_, Sum{0});
    auto depth = static_cast<int64_t>(depth_a_.size());
    for (int64_t p = 0; p < depth; p += kDepth) {
      int64_t deep = std::min(kDepth, depth - p);
      pack_panels(a, rows_, i, high, depth_a_, p, deep, tile_.rows, data(a_));
      pack_panels(b, columns_, j, wide, depth_b_, p, deep, tile_.columns, data(b_));
      for (int64_t k = 0; k < wide; k += tile_.columns) {
        for (int64_t r = 0; r < high; r += tile_.rows) {
          tile_.kernel(data(a_) + r * deep, data(b_) + k * deep, deep, c + r * row_length_ + k,
                       row_length_);
        }
      }
    }
  }

  template <class T>
  static void pack_panels(const T* from, const Sizes& positions, int64_t first, int64_t count,
                          const Sizes& depths, int64_t begin, int64_t deep, int64_t lanes,
                          Sum* panels) {
    auto at = [](int64_t x) { return static_cast<size_t>(x); };
    auto depth = std::span(depths).subspan(at(begin), at(deep));
    for (int64_t j = 0; j < count; j += lanes) {
      auto panel = std::span(positions).subspan(at(first + j), at(std::min(lanes, count - j)));
      pack(from, panel, depth, at(lanes), panels + j * deep);
    }
  }

  Tile<Sum> tile_;
  int64_t row_length_ = 0;  // of c_
  Sizes depth_a_, depth_b_, rows_, columns_;
  HostTensor a_, b_, c_;
};

template <class Sum, class A, class B, class Out>
Status matrix_sums(const Problem& problem, const Roles& roles, const A* a, const B* b, Out* out) {
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
        product.run(a + at[0], b + at[1], [&](int64_t i, int64_t j, Sum sum) {
          out[at[2] + rows[static_cast<size_t>(i)] + columns[static_cast<size_t>(j)]] =
              static_cast<Out>(sum);
        });
      });
  return {};
}

template <class Sum, class A, class B, class Out>
Status sums(const Problem& problem, const A* a, const B* b, Out* out) {
  Roles roles(problem.kept);
  int64_t rows = count_of(roles.rows);
  int64_t columns = count_of(roles.columns);
  if (rows >= 2 && columns >= 2 && rows * columns >= 16 && count_of(problem.summed) >= 4) {
    return matrix_sums<Sum>(problem, roles, a, b, out);
  }
  direct_sums<Sum>(problem, a, b, [&](int64_t i, Sum sum) { out[i] = static_cast<Out>(sum); });
  return {};
}

// Storage dtypes that reach here: f16, bf16, f32, f64.
template <class F>
auto dispatch_stored_float(DType dtype, F&& f) {
  if (dtype == DType::kFloat16) return f(Half{});
  if (dtype == DType::kBfloat16) return f(Bfloat{});
  return dispatch_float(dtype, f);
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
  Status status = dispatch_stored_float(a.dtype(), [&](auto left) -> Status {
    using A = decltype(left);
    return dispatch_stored_float(b.dtype(), [&](auto right) -> Status {
      using B = decltype(right);
      if (to == DType::kFloat32 && context.narrow) {
        return sums<float>(problem, a.data<A>(), b.data<B>(), out.mutable_data<float>());
      }
      if (to == DType::kFloat32) {
        return sums<double>(problem, a.data<A>(), b.data<B>(), out.mutable_data<float>());
      }
      return sums<double>(problem, a.data<A>(), b.data<B>(), out.mutable_data<double>());
    });
  });
  if (!status.ok()) return status.error();
  return out;
}

}  // namespace

Result<Value> eval_product_sum(const Context& context, const Value& a, const Value& b,
                               std::span<const int> axes, DType to) {
  Problem problem;
  for (size_t k = 0; k < a.sizes.size(); ++k) {
    bool away = std::find(axes.begin(), axes.end(), static_cast<int>(k)) != axes.end();
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
    if (std::find(seen.begin(), seen.end(), label) != seen.end()) continue;
    seen.push_back(label);
    problem.summed.push_back(loop_of(label));
  }
  return evaluate(context, std::move(problem), a, b, to);
}

}  // namespace common::interp
