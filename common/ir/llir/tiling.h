// How a template divides the work of a kernel: which of its forms the code is printed as, and the
// sizes of that form's blocks, as data. A body says what a kernel computes, its nest how loops
// compute it, and its tiling how a template does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/base/cat.h"
#include "common/base/result.h"
#include "common/ir/expr/expr.h"

namespace common {

// `sizes` are named by the form: numbers, or expressions of the kernel body's symbols. The types of
// forms are in common/schedule/kernels, beside the functions that choose them.
struct Tiling {
  std::string form;
  std::map<std::string, Expr, std::less<>> sizes;
  friend bool operator==(const Tiling&, const Tiling&) = default;
};

// One line; parse_tiling reads it back. Expressions stand in brackets. Such as
//   warpgroups cluster=1 columns=128 rows=128 splits=[min(4, s0)] stages=5
std::string print(const Tiling& tiling);
Result<Tiling> parse_tiling(std::string_view text);

// Of a type T with `kForm`, its name, and `fields(t, visit)`, which calls visit(name, member) for
// every member: an int64_t, an int, a bool or an Expr.
template <class T>
Tiling to_tiling(const T& t) {
  Tiling tiling{std::string(T::kForm), {}};
  T::fields(t, [&](std::string_view name, const auto& member) {
    if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Expr>) {
      tiling.sizes.emplace(name, member);
    } else {
      tiling.sizes.emplace(name, Expr(static_cast<int64_t>(member)));
    }
  });
  return tiling;
}

// kInvalidInput for another form, for a size that is missing, unknown to the form or symbolic where
// a number is asked for, and for numbers outside [0, 2^31).
template <class T>
Result<T> from_tiling(const Tiling& tiling) {
  if (tiling.form != T::kForm) {
    return invalid_input(cat("a tiling of form '", tiling.form, "' where '", T::kForm, "' is due"));
  }
  T t;
  size_t known = 0;
  std::string wrong;
  T::fields(t, [&](std::string_view name, auto& member) {
    using Member = std::decay_t<decltype(member)>;
    auto found = tiling.sizes.find(name);
    if (found == tiling.sizes.end()) {
      wrong = cat("has no ", name);
      return;
    }
    ++known;
    if constexpr (std::is_same_v<Member, Expr>) {
      member = found->second;
    } else {
      constexpr int64_t kMax = std::is_same_v<Member, bool> ? 1 : INT32_MAX;
      bool fits = found->second.is_constant() && found->second.constant() >= 0 &&
                  found->second.constant() <= kMax;
      if (fits) member = static_cast<Member>(found->second.constant());
      if (!fits) wrong = cat("has ", name, "=", found->second.text());
    }
  });
  if (wrong.empty() && known != tiling.sizes.size()) wrong = "has a size that its form lacks";
  if (!wrong.empty()) return invalid_input(cat("the tiling '", print(tiling), "' ", wrong));
  return t;
}

}  // namespace common
