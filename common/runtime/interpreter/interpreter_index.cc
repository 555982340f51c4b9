#include "common/runtime/interpreter/interpreter_index.h"

#include <algorithm>

namespace common::interp {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return -a;  // the quotient of the least integer traps
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t floor_remainder(int64_t a, int64_t b) { return b == 0 ? 0 : a - floor_quotient(a, b) * b; }

Linear plus(Linear a, const Linear& b, int64_t factor) {
  a.add(b, factor);
  return a;
}

bool is_constant(const Linear& a) {
  return std::all_of(a.coefficients.begin(), a.coefficients.end(),
                     [](int64_t c) { return c == 0; });
}

}  // namespace

void Linear::add(const Linear& other, int64_t factor) {
  offset += other.offset * factor;
  for (size_t k = 0; k < coefficients.size(); ++k) {
    coefficients[k] += other.coefficients[k] * factor;
  }
}

std::pair<int64_t, int64_t> Linear::range(std::span<const int64_t> sizes) const {
  std::pair<int64_t, int64_t> range{offset, offset};
  for (size_t k = 0; k < sizes.size(); ++k) {
    int64_t reach = coefficients[k] * (sizes[k] - 1);
    (reach < 0 ? range.first : range.second) += reach;
  }
  return range;
}

SplitAxes::SplitAxes(std::span<const int64_t> sizes) : sizes_(sizes.begin(), sizes.end()) {
  for (size_t k = 0; k < sizes_.size(); ++k) {
    forms_.push_back(constant(0));
    if (sizes_[k] != 1) forms_.back().coefficients[k] = 1;
  }
}

std::optional<Linear> SplitAxes::linear(const Expr& expr, std::span<const int64_t> symbols) {
  constexpr int kMaxSplits = 16;
  for (int n = 0; n < kMaxSplits; ++n) {
    Wish wish;
    auto result = try_linear(expr, symbols, &wish);
    if (result || wish.inner == 0) return result;
    split(wish);
  }
  return std::nullopt;
}

void SplitAxes::split(const Wish& wish) {
  auto at = static_cast<std::ptrdiff_t>(wish.axis);
  int64_t outer = sizes_[wish.axis] / wish.inner;
  sizes_[wish.axis] = wish.inner;
  sizes_.insert(sizes_.begin() + at, outer);
  for (Linear& form : forms_) {
    int64_t c = form.coefficients[wish.axis];
    form.coefficients.insert(form.coefficients.begin() + at, c * wish.inner);
  }
}

std::optional<Linear> SplitAxes::try_linear(const Expr& expr, std::span<const int64_t> symbols,
                                            Wish* wish) {
  if (expr.is_constant()) return constant(expr.constant());
  switch (expr.kind()) {
    case ExprKind::kVar: {
      Var var = *expr.as_var();
      auto id = static_cast<size_t>(var.id);
      if (var.kind == Var::Kind::kIndex) return forms_[id];
      return constant(symbols[id]);
    }
    case ExprKind::kConstant:
    case ExprKind::kSum: {
      Linear sum = constant(expr.sum_constant());
      for (const auto& term : expr.terms()) {
        Linear product = constant(term.coefficient);
        for (const Expr& factor : term.factors) {
          auto value = try_linear(factor, symbols, wish);
          if (!value) return std::nullopt;
          if (is_constant(*value)) {
            product = plus(constant(0), product, value->offset);
          } else if (is_constant(product)) {
            product = plus(constant(0), *value, product.offset);
          } else {
            return std::nullopt;
          }
        }
        sum = plus(std::move(sum), product, 1);
      }
      return sum;
    }
    default:
      break;
  }
  auto a = try_linear(expr.left(), symbols, wish);
  if (!a) return std::nullopt;
  auto b = try_linear(expr.right(), symbols, wish);
  if (!b) return std::nullopt;
  if (expr.kind() == ExprKind::kFloorDiv || expr.kind() == ExprKind::kMod) {
    if (!is_constant(*b)) return std::nullopt;
    return divide(*a, b->offset, expr.kind() == ExprKind::kMod, wish);
  }
  auto [least, greatest] = plus(*a, *b, -1).range(sizes_);
  if (least >= 0) return expr.kind() == ExprKind::kMin ? b : a;
  if (greatest <= 0) return expr.kind() == ExprKind::kMin ? a : b;
  return std::nullopt;
}

std::optional<Linear> SplitAxes::divide(const Linear& value, int64_t divisor, bool remainder,
                                        Wish* wish) {
  if (divisor == 0) return constant(0);
  if (divisor < 0) return std::nullopt;
  Linear quotient = constant(floor_quotient(value.offset, divisor));
  Linear rest = constant(floor_remainder(value.offset, divisor));
  for (size_t k = 0; k < sizes_.size(); ++k) {
    int64_t c = value.coefficients[k];
    if (c % divisor == 0) {
      quotient.coefficients[k] = c / divisor;
    } else {
      rest.coefficients[k] = c;
    }
  }
  auto [least, greatest] = rest.range(sizes_);
  if (least >= 0 && greatest < divisor) return remainder ? rest : quotient;
  // Split the axis that crosses the divisor, so that its outer part becomes divisible.
  for (size_t k = 0; k < sizes_.size(); ++k) {
    int64_t c = rest.coefficients[k];
    if (c <= 0 || divisor % c != 0) continue;
    int64_t inner = divisor / c;
    if (inner > 1 && inner < sizes_[k] && sizes_[k] % inner == 0) {
      *wish = {k, inner};
      return std::nullopt;
    }
  }
  return std::nullopt;
}

IndexFunction::IndexFunction(const Expr& expr, int rank, std::span<const int64_t> symbols)
    : rank_(rank) {
  emit(expr, symbols);
  stack_.resize(max_depth_ * static_cast<size_t>(kBlock));
}

void IndexFunction::push(Step step, int64_t value) {
  program_.push_back({step, value});
  if (step == Step::kConstant || step == Step::kAxis) {
    max_depth_ = std::max(max_depth_, ++depth_);
  } else {
    --depth_;
  }
}

void IndexFunction::emit(const Expr& expr, std::span<const int64_t> symbols) {
  if (!expr.uses_index()) return push(Step::kConstant, expr.evaluate(symbols));
  switch (expr.kind()) {
    case ExprKind::kVar:
      return push(Step::kAxis, expr.as_var()->id);
    case ExprKind::kConstant:
    case ExprKind::kSum:
      push(Step::kConstant, expr.sum_constant());
      for (const auto& term : expr.terms()) {
        push(Step::kConstant, term.coefficient);
        for (const Expr& factor : term.factors) {
          emit(factor, symbols);
          push(Step::kMul);
        }
        push(Step::kAdd);
      }
      return;
    default:
      break;
  }
  emit(expr.left(), symbols);
  emit(expr.right(), symbols);
  switch (expr.kind()) {
    case ExprKind::kFloorDiv:
      return push(Step::kFloorDiv);
    case ExprKind::kMod:
      return push(Step::kMod);
    case ExprKind::kMin:
      return push(Step::kMin);
    default:
      return push(Step::kMax);
  }
}

bool IndexFunction::uses_axis(int axis) const {
  return std::any_of(program_.begin(), program_.end(), [axis](const Instruction& i) {
    return i.step == Step::kAxis && i.value == axis;
  });
}

void IndexFunction::evaluate(std::span<const int64_t> index, int64_t first, int64_t count,
                             int64_t* out) {
  size_t top = 0;
  auto block = [&](size_t entry) { return stack_.data() + entry * static_cast<size_t>(kBlock); };
  for (const Instruction& i : program_) {
    if (i.step == Step::kConstant) {
      std::fill_n(block(top++), count, i.value);
      continue;
    }
    if (i.step == Step::kAxis) {
      int64_t* to = block(top++);
      bool inner = i.value == rank_ - 1;
      int64_t base = inner ? first : index[static_cast<size_t>(i.value)];
      for (int64_t j = 0; j < count; ++j) to[j] = inner ? base + j : base;
      continue;
    }
    const int64_t* b = block(--top);
    int64_t* a = block(top - 1);
    auto apply = [&](auto f) {
      for (int64_t j = 0; j < count; ++j) a[j] = f(a[j], b[j]);
    };
    auto wrap = [](uint64_t x) { return static_cast<int64_t>(x); };
    switch (i.step) {
      case Step::kAdd:
        apply([&](int64_t x, int64_t y) {
          return wrap(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
        });
        break;
      case Step::kMul:
        apply([&](int64_t x, int64_t y) {
          return wrap(static_cast<uint64_t>(x) * static_cast<uint64_t>(y));
        });
        break;
      case Step::kFloorDiv:
        apply(floor_quotient);
        break;
      case Step::kMod:
        apply(floor_remainder);
        break;
      case Step::kMin:
        apply([](int64_t x, int64_t y) { return std::min(x, y); });
        break;
      default:
        apply([](int64_t x, int64_t y) { return std::max(x, y); });
        break;
    }
  }
  std::copy_n(block(0), count, out);
}

}  // namespace common::interp
