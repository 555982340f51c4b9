#include <algorithm>
#include <cstring>

#include "common/base/cat.h"
#include "common/runtime/interpreter/interpreter_index.h"
#include "common/runtime/interpreter/interpreter_ops.h"

namespace common::interp {
namespace {

Error outside(const Value& in) {
  return invalid_input(cat("a view reads outside its operand ",
                           tensor_type_text(in.dtype(), in.sizes), "; fix the graph"));
}

// A view whose positions and conditions are linear over split axes.
struct LinearView {
  Sizes sizes;                     // split axes
  Linear position;                 // in elements of the storage
  std::vector<Linear> conditions;  // valid where all are >= 0
  std::vector<Linear> forms;       // the output's axes over the split axes
};

// Positions by axis; `conditions` gets value >= 0 and value < bound of every validity.
bool convert(const Context& context, const Value& in, const View& view, SplitAxes& axes,
             LinearView& result) {
  result.position = axes.constant(in.offset);
  result.conditions.clear();
  for (size_t k = 0; k < view.index.size(); ++k) {
    if (in.sizes[k] == 1 && view.valid.empty()) continue;  // only position 0
    auto index = axes.linear(view.index[k], context.symbols);
    if (!index) return false;
    if (index->coefficients.size() != result.position.coefficients.size()) return true;
    result.position.add(*index, in.strides[k]);
  }
  for (const Validity& v : view.valid) {
    auto value = axes.linear(v.value, context.symbols);
    auto bound = axes.linear(v.bound, context.symbols);
    if (!value || !bound) return false;
    if (value->coefficients.size() != bound->coefficients.size()) return true;
    result.conditions.push_back(*value);
    bound->add(*value, -1);
    bound->offset -= 1;
    result.conditions.push_back(*bound);
  }
  return true;
}

std::optional<LinearView> linear_view(const Context& context, const Value& in, const View& view,
                                      std::span<const int64_t> sizes) {
  SplitAxes axes(sizes);
  LinearView result;
  for (;;) {  // a conversion that splits an axis starts over
    size_t before = axes.sizes().size();
    if (!convert(context, in, view, axes, result)) break;
    if (axes.sizes().size() != before) continue;
    result.sizes = axes.sizes();
    for (size_t k = 0; k < sizes.size(); ++k) result.forms.push_back(axes.form(k));
    auto always = [&](const Linear& c) { return c.range(result.sizes).first >= 0; };
    std::erase_if(result.conditions, always);
    return result;
  }
  if (!view.valid.empty() || !is_contiguous(in)) return std::nullopt;
  // Quotients and remainders of a reshape may cancel in the row-major position.
  Shape known;
  for (int64_t size : in.sizes) known.push_back(size);
  View bound = view;
  auto bind = [&](Var v) {
    return v.kind == Var::Kind::kSymbol ? Expr(context.symbols[static_cast<size_t>(v.id)])
                                        : Expr::var(v);
  };
  for (Expr& e : bound.index) e = e.substitute(bind);
  bound.shape.clear();
  for (int64_t size : sizes) bound.shape.push_back(size);
  SplitAxes whole_axes(sizes);
  auto position = whole_axes.linear(view_offset(bound, known, {}), {});
  if (!position) return std::nullopt;
  result.sizes = whole_axes.sizes();
  result.position = *position;
  result.forms.clear();
  for (size_t k = 0; k < sizes.size(); ++k) result.forms.push_back(whole_axes.form(k));
  return result;
}

// The strides over the output's own axes when no axis stays split.
std::optional<Sizes> unsplit_strides(const LinearView& view) {
  Sizes strides;
  for (const Linear& form : view.forms) {
    std::optional<int64_t> stride;
    for (size_t p = 0; p < view.sizes.size(); ++p) {
      int64_t c = form.coefficients[p];
      if (c == 0) continue;
      int64_t part = view.position.coefficients[p];
      if (part % c != 0 || (stride && *stride != part / c)) return std::nullopt;
      stride = part / c;
    }
    strides.push_back(stride.value_or(0));
  }
  return strides;
}

bool inside(const Linear& position, const LinearView& view, const Value& in) {
  auto [least, greatest] = position.range(view.sizes);
  return least >= 0 && greatest < in.storage.elements();
}

// The part [begin, end) of a row of `length` where start + j * step >= 0 for all conditions.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
  void keep(int64_t start, int64_t step) {
    if (step == 0) {
      if (start < 0) end = 0;
    } else if (step > 0) {
      if (start < 0) begin = std::max(begin, (-start + step - 1) / step);
    } else {
      end = std::min(end, start < 0 ? 0 : start / -step + 1);
    }
  }
};

// Copies a linear view into `out`, whose strides over the split axes are `target`.
class LinearCopy {
 public:
  LinearCopy(const LinearView& view, const Value& in, Sizes loops, Sizes target, double fill)
      : in_(in), loops_(std::move(loops)) {
    // A long row pays for what it costs to start one.
    row_ = loops_.size();
    for (size_t k = loops_.size(); k-- > 0;) {
      if (row_ == loops_.size() || (loops_[row_] < 16 && loops_[k] > loops_[row_])) row_ = k;
    }
    add(view.position);
    add(Linear{0, std::move(target)});
    for (const Linear& c : view.conditions) add(c);
    std::memset(fill_, 0, sizeof fill_);
    store_element(in.dtype(), fill_, fill);
  }

  // False when an element that is read lies outside the storage.
  template <class T>
  bool run(Value& out) {
    T fill;
    std::memcpy(&fill, fill_, sizeof fill);
    const T* from = reinterpret_cast<const T*>(in_.storage.data());
    T* to = out.mutable_data<T>();
    int64_t elements = in_.storage.elements();
    int64_t length = row_ < loops_.size() ? loops_[row_] : 1;
    int64_t read = step(0);
    int64_t write = step(1);
    Sizes index(loops_.size(), 0);
    Sizes values = starts_;
    do {
      Run run{0, length};
      for (size_t c = 2; c < values.size(); ++c) run.keep(values[c], step(c));
      run.begin = std::min(run.begin, length);
      run.end = std::max(run.end, run.begin);
      T* target = to + values[1];
      for (int64_t j = 0; j < run.begin; ++j) target[j * write] = fill;
      for (int64_t j = run.end; j < length; ++j) target[j * write] = fill;
      if (run.begin == run.end) continue;
      int64_t first = values[0] + run.begin * read;
      int64_t last = values[0] + (run.end - 1) * read;
      if (std::min(first, last) < 0 || std::max(first, last) >= elements) return false;
      const T* source = from + values[0];
      if (read == 1 && write == 1) {
        std::memcpy(target + run.begin, source + run.begin,
                    static_cast<size_t>(run.end - run.begin) * sizeof(T));
      } else {
        for (int64_t j = run.begin; j < run.end; ++j) target[j * write] = source[j * read];
      }
    } while (advance(index, values));
    return true;
  }

 private:
  void add(const Linear& form) {
    starts_.push_back(form.offset);
    steps_.push_back(form.coefficients);
  }
  int64_t step(size_t form) const { return row_ < loops_.size() ? steps_[form][row_] : 0; }
  bool advance(Sizes& index, Sizes& values) const {
    for (size_t k = loops_.size(); k-- > 0;) {
      if (k == row_ || loops_[k] == 1) continue;
      bool wraps = ++index[k] == loops_[k];
      int64_t by = wraps ? 1 - loops_[k] : 1;
      for (size_t f = 0; f < values.size(); ++f) values[f] += steps_[f][k] * by;
      if (!wraps) return true;
      index[k] = 0;
    }
    return false;
  }

  const Value& in_;
  Sizes loops_;
  size_t row_ = 0;
  Sizes starts_;              // position, target, conditions
  std::vector<Sizes> steps_;  // the same, by loop
  std::byte fill_[8];
};

Result<Value> copy_linear(const Context& context, const Value& in, const LinearView& view,
                          const Sizes& sizes, double fill) {
  std::vector<char> unused(sizes.size(), 1);
  for (size_t k = 0; k < sizes.size(); ++k) {
    for (size_t p = 0; p < view.sizes.size(); ++p) {
      if (view.forms[k].coefficients[p] == 0) continue;
      if (view.position.coefficients[p] != 0) unused[k] = 0;
      for (const Linear& c : view.conditions) {
        if (c.coefficients[p] != 0) unused[k] = 0;
      }
    }
  }
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, in.dtype(), sizes, unused));
  Sizes target(view.sizes.size(), 0);
  Sizes loops = view.sizes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    for (size_t p = 0; p < view.sizes.size(); ++p) {
      int64_t c = view.forms[k].coefficients[p];
      if (c == 0) continue;
      target[p] = c * out.strides[k];
      if (unused[k]) loops[p] = 1;
    }
  }
  LinearCopy copy(view, in, std::move(loops), std::move(target), fill);
  bool ok = dispatch_bytes(dtype_size(in.dtype()),
                           [&](auto unit) { return copy.run<decltype(unit)>(out); });
  if (!ok) return outside(in);
  return out;
}

// The general case: every index expression evaluated, a block of a row at a time.
class ExpressionCopy {
 public:
  ExpressionCopy(const Context& context, const Value& in, const View& view) : in_(in), fill_{} {
    auto rank = static_cast<int>(view.shape.size());
    for (size_t k = 0; k < view.index.size(); ++k) {
      if (in.sizes[k] == 1 && view.valid.empty()) continue;
      index_.emplace_back(view.index[k], rank, context.symbols);
      strides_.push_back(in.strides[k]);
    }
    for (const Validity& v : view.valid) {
      values_.emplace_back(v.value, rank, context.symbols);
      bounds_.emplace_back(v.bound, rank, context.symbols);
    }
    store_element(in.dtype(), fill_, view.fill);
  }

  std::vector<char> unused_axes(size_t rank) const {
    std::vector<char> unused(rank, 1);
    for (const auto* list : {&index_, &values_, &bounds_}) {
      for (const IndexFunction& f : *list) {
        for (size_t k = 0; k < rank; ++k) {
          if (f.uses_axis(static_cast<int>(k))) unused[k] = 0;
        }
      }
    }
    return unused;
  }

  // False when an element that is read lies outside the storage. `loops` are out's stored sizes.
  template <class T>
  bool run(Value& out, const Sizes& loops) {
    T fill;
    std::memcpy(&fill, fill_, sizeof fill);
    const T* from = reinterpret_cast<const T*>(in_.storage.data());
    T* to = out.mutable_data<T>();
    int64_t length = loops.empty() ? 1 : loops.back();
    int64_t elements = in_.storage.elements();
    Sizes index(loops.size(), 0);
    for (;;) {
      for (int64_t first = 0; first < length; first += kBlock) {
        int64_t count = std::min(kBlock, length - first);
        locate(index, first, count);
        for (int64_t j = 0; j < count; ++j) {
          if (!valid_[j]) {
            *to++ = fill;
            continue;
          }
          if (position_[j] < 0 || position_[j] >= elements) return false;
          *to++ = from[position_[j]];
        }
      }
      size_t k = loops.empty() ? 0 : loops.size() - 1;
      while (k > 0 && ++index[k - 1] == loops[k - 1]) index[--k] = 0;
      if (k == 0) return true;
    }
  }

 private:
  static constexpr int64_t kBlock = IndexFunction::kBlock;
  void locate(std::span<const int64_t> index, int64_t first, int64_t count) {
    std::fill_n(position_, count, in_.offset);
    std::fill_n(valid_, count, char{1});
    int64_t a[kBlock];
    int64_t b[kBlock];
    for (size_t k = 0; k < index_.size(); ++k) {
      index_[k].evaluate(index, first, count, a);
      for (int64_t j = 0; j < count; ++j) position_[j] += a[j] * strides_[k];
    }
    for (size_t v = 0; v < values_.size(); ++v) {
      values_[v].evaluate(index, first, count, a);
      bounds_[v].evaluate(index, first, count, b);
      for (int64_t j = 0; j < count; ++j) {
        if (a[j] < 0 || a[j] >= b[j]) valid_[j] = 0;
      }
    }
  }

  const Value& in_;
  std::vector<IndexFunction> index_, values_, bounds_;
  Sizes strides_;
  std::byte fill_[8];
  int64_t position_[kBlock];
  char valid_[kBlock];
};

}  // namespace

Result<Value> apply_view(const Context& context, const Value& in, const View& view) {
  Sizes sizes = evaluate_shape(view.shape, context.symbols);
  LFARM_ASSIGN_OR_RETURN(int64_t elements, checked_element_count(DType::kBool, sizes));
  if (elements == 0) return allocate(context, in.dtype(), sizes);
  auto linear = linear_view(context, in, view, sizes);
  if (linear && linear->conditions.empty()) {
    if (!inside(linear->position, *linear, in)) return outside(in);
    if (auto strides = unsplit_strides(*linear)) {
      return Value{in.storage, std::move(sizes), std::move(*strides), linear->position.offset};
    }
  }
  if (linear) return copy_linear(context, in, *linear, sizes, view.fill);
  ExpressionCopy copy(context, in, view);
  std::vector<char> unused = copy.unused_axes(sizes.size());
  LFARM_ASSIGN_OR_RETURN(Value out, allocate(context, in.dtype(), sizes, unused));
  Sizes loops = stored_sizes(sizes, unused);
  bool ok = dispatch_bytes(dtype_size(in.dtype()),
                           [&](auto unit) { return copy.run<decltype(unit)>(out, loops); });
  if (!ok) return outside(in);
  return out;
}

}  // namespace common::interp
