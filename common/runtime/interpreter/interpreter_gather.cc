#include <algorithm>

#include "common/runtime/interpreter/interpreter_index.h"
#include "common/runtime/interpreter/interpreter_math.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {
namespace {

constexpr int64_t kBlock = IndexFunction::kBlock;

// The positions in `data` that coordinates name, for blocks of a row of the index tensors.
class Locator {
 public:
  Locator(const Context& context, const Value& data, const std::vector<Coordinate>& coordinates,
          std::span<const Value> indices, size_t rank)
      : indices_(indices), sizes_(data.sizes), strides_(data.strides), offset_(data.offset) {
    for (const Coordinate& c : coordinates) {
      functions_.emplace_back(c.slot < 0 ? c.expr : Expr(0), static_cast<int>(rank),
                              context.symbols);
      slots_.push_back(c.slot);
    }
  }

  // Whether positions are the same all along an axis.
  bool repeats(size_t axis) const {
    for (size_t k = 0; k < slots_.size(); ++k) {
      if (slots_[k] < 0) {
        if (functions_[k].uses_axis(static_cast<int>(axis))) return false;
      } else if (index(k).sizes[axis] != 1 && index(k).strides[axis] != 0) {
        return false;
      }
    }
    return true;
  }

  // Elements [first, first + count) of the row at `at` (the last entry is ignored). Values from
  // tensors are clamped when `clamp`; any other position outside is given as -1.
  void locate(std::span<const int64_t> at, int64_t first, int64_t count, bool clamp,
              int64_t* position) {
    std::fill_n(position, count, offset_);
    int64_t values[kBlock];
    for (size_t k = 0; k < slots_.size(); ++k) {
      int64_t last = sizes_[k] - 1;
      if (slots_[k] < 0) {
        functions_[k].evaluate(at, first, count, values);
      } else {
        load(index(k), at, first, count, values);
        for (int64_t j = 0; clamp && j < count; ++j) {
          values[j] = std::min(std::max<int64_t>(values[j], 0), last);
        }
      }
      for (int64_t j = 0; j < count; ++j) {
        bool outside = values[j] < 0 || values[j] > last || position[j] < 0;
        position[j] = outside ? -1 : position[j] + values[j] * strides_[k];
      }
    }
  }

 private:
  const Value& index(size_t k) const { return indices_[static_cast<size_t>(slots_[k])]; }
  static void load(const Value& from, std::span<const int64_t> at, int64_t first, int64_t count,
                   int64_t* to) {
    int64_t start = 0;
    int64_t step = 0;
    if (!at.empty()) {
      for (size_t k = 0; k + 1 < at.size(); ++k) start += at[k] * from.strides[k];
      step = from.strides.back();
      start += first * step;
    }
    dispatch_integer(from.dtype(), [&](auto unit) {
      const auto* data = from.data<decltype(unit)>() + start;
      for (int64_t j = 0; j < count; ++j) to[j] = static_cast<int64_t>(data[j * step]);
    });
  }

  std::span<const Value> indices_;
  const Sizes& sizes_;
  const Sizes& strides_;
  int64_t offset_;
  std::vector<IndexFunction> functions_;  // used where there is no slot
  std::vector<int> slots_;
};

// f(row index, first, count) for blocks of all rows of a nest of these sizes, in order.
template <class F>
void for_each_block(const Sizes& sizes, F&& f) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  int64_t length = sizes.empty() ? 1 : sizes.back();
  Sizes at(sizes.size(), 0);
  for (;;) {
    for (int64_t first = 0; first < length; first += kBlock) {
      f(std::span<const int64_t>(at), first, std::min(kBlock, length - first));
    }
    size_t k = sizes.empty() ? 0 : sizes.size() - 1;
    while (k > 0 && ++at[k - 1] == sizes[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}

// Updates are combined in double for floats, so that the result is rounded once.
template <class T>
T combine(ScatterMode mode, T a, T b) {
  switch (mode) {
    case ScatterMode::kAdd:
      if constexpr (std::is_integral_v<T>) return wrap_add(a, b);
      if constexpr (!std::is_integral_v<T>) return a + b;
    case ScatterMode::kMul:
      if constexpr (std::is_integral_v<T>) return wrap_mul(a, b);
      if constexpr (!std::is_integral_v<T>) return a * b;
    case ScatterMode::kMin:
      return min_of(a, b);
    case ScatterMode::kMax:
      return max_of(a, b);
    default:
      return b;
  }
}

int64_t position_of(const Value& value, std::span<const int64_t> at, int64_t first) {
  int64_t position = 0;
  for (size_t k = 0; k + 1 < at.size(); ++k) position += at[k] * value.strides[k];
  return at.empty() ? 0 : position + first * value.strides.back();
}

template <class F>
void scatter_updates(Locator& locator, const Value& updates, F&& store) {
  int64_t step = updates.strides.empty() ? 0 : updates.strides.back();
  for_each_block(updates.sizes, [&](std::span<const int64_t> at, int64_t first, int64_t count) {
    int64_t position[kBlock];
    locator.locate(at, first, count, false, position);
    int64_t source = position_of(updates, at, first);
    for (int64_t j = 0; j < count; ++j) {
      if (position[j] >= 0) store(position[j], source + j * step);
    }
  });
}

}  // namespace

Result<Value> eval_gather(const Context& context, const GatherAttr& attr, const Sizes& sizes,
                          std::span<const Value> operands) {
  const Value& data = operands[0];
  Locator locator(context, data, attr.coordinates, operands.subspan(1), sizes.size());
  std::vector<char> repeated;
  for (size_t k = 0; k < sizes.size(); ++k) repeated.push_back(locator.repeats(k));
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, data.dtype(), sizes, repeated));
  bool inside = true;
  dispatch_bytes(dtype_size(data.dtype()), [&](auto unit) {
    using T = decltype(unit);
    const T* from = reinterpret_cast<const T*>(data.storage.data());
    T* to = out.mutable_data<T>();
    for_each_block(stored_sizes(sizes, repeated),
                   [&](std::span<const int64_t> at, int64_t first, int64_t count) {
                     int64_t position[kBlock];
                     locator.locate(at, first, count, true, position);
                     for (int64_t j = 0; j < count; ++j) {
                       inside = inside && position[j] >= 0;
                       *to++ = position[j] >= 0 ? from[position[j]] : T{0};
                     }
                   });
  });
  if (!inside) return invalid_input("a gather reads outside its operand; fix the graph");
  return out;
}

Result<Value> eval_scatter(const Context& context, const ScatterAttr& attr,
                           std::span<const Value> operands) {
  const Value& updates = operands[1];
  bool in_double = operands[0].dtype() == DType::kFloat32 && attr.mode != ScatterMode::kAssign;
  LFARM_ASSIGN_OR_RETURN(Value base, in_double ? eval_cast(context, operands[0], DType::kFloat64)
                                               : Result<Value>(operands[0]));
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, base.dtype(), base.sizes));
  copy_elements(base, out);
  Locator locator(context, out, attr.coordinates, operands.subspan(2), updates.sizes.size());
  if (attr.mode == ScatterMode::kAssign) {
    dispatch_bytes(dtype_size(out.dtype()), [&](auto unit) {
      using T = decltype(unit);
      const T* from = updates.data<T>();
      T* to = out.mutable_data<T>();
      scatter_updates(locator, updates,
                      [&](int64_t target, int64_t source) { to[target] = from[source]; });
    });
    return out;
  }
  auto accumulate = [&](auto target_unit, auto source_unit) {
    using T = decltype(target_unit);
    using From = decltype(source_unit);
    const From* from = updates.data<From>();
    T* to = out.mutable_data<T>();
    scatter_updates(locator, updates, [&](int64_t target, int64_t source) {
      to[target] = combine(attr.mode, to[target], static_cast<T>(from[source]));
    });
  };
  if (in_double) {
    accumulate(double{}, float{});
  } else if (out.dtype() == DType::kFloat64) {
    accumulate(double{}, double{});
  } else if (out.dtype() == DType::kBool) {
    // Booleans add and take the maximum as "or", multiply and take the minimum as "and".
    bool either = attr.mode == ScatterMode::kAdd || attr.mode == ScatterMode::kMax;
    const Bool* from = updates.data<Bool>();
    Bool* to = out.mutable_data<Bool>();
    scatter_updates(locator, updates, [&](int64_t target, int64_t source) {
      bool a = to[target].value != 0;
      bool b = from[source].value != 0;
      to[target] = Bool{either ? a || b : a && b};
    });
  } else {
    dispatch_integer(out.dtype(), [&](auto unit) { accumulate(unit, unit); });
  }
  if (in_double) return eval_cast(context, out, DType::kFloat32);
  return out;
}

}  // namespace common::interp
