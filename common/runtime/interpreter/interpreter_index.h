// Index expressions at bound sizes: linear where they can be made so, else evaluated by the block.
//
// A reshape's quotients and remainders become linear when an axis is split: with i = 64 u + v,
// i // 64 is u and i % 64 is v. Nearly every view of a real model becomes a strided nest this way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/ir/expr/expr.h"
#include "common/runtime/interpreter/interpreter_value.h"

namespace common::interp {

// offset + sum of coefficients[k] * axis k.
struct Linear {
  int64_t offset = 0;
  Sizes coefficients;

  void add(const Linear& other, int64_t factor);
  // The least and the greatest value over a nest of these (positive) sizes.
  std::pair<int64_t, int64_t> range(std::span<const int64_t> sizes) const;
};

// Output axes, some of them split so that expressions become linear.
class SplitAxes {
 public:
  explicit SplitAxes(std::span<const int64_t> sizes);

  // The expression over the axes as they are now, or over axes split further. Empty when the
  // expression stays non-linear; earlier results then remain valid for the current axes only if
  // sizes() did not change: convert all expressions again when it did.
  std::optional<Linear> linear(const Expr& expr, std::span<const int64_t> symbols);
  // The axes now; splitting keeps row-major order.
  const Sizes& sizes() const { return sizes_; }
  // Original axis k over the axes now; its parts are where the coefficients are not 0.
  const Linear& form(size_t k) const { return forms_[k]; }
  Linear constant(int64_t value) const { return {value, Sizes(sizes_.size(), 0)}; }

 private:
  struct Wish {
    size_t axis = 0;
    int64_t inner = 0;  // size of the inner part
  };
  std::optional<Linear> try_linear(const Expr& expr, std::span<const int64_t> symbols, Wish* wish);
  std::optional<Linear> divide(const Linear& value, int64_t divisor, bool remainder, Wish* wish);
  void split(const Wish& wish);

  Sizes sizes_;
  std::vector<Linear> forms_;  // each original axis over the axes now
};

// Any expression over the loop indices, evaluated for a run of the last axis at a time.
class IndexFunction {
 public:
  static constexpr int64_t kBlock = 256;
  IndexFunction(const Expr& expr, int rank, std::span<const int64_t> symbols);

  bool uses_axis(int axis) const;
  // out[j] = value at index (outer..., first + j), j < count <= kBlock. `index` has one entry per
  // axis; the last is ignored.
  void evaluate(std::span<const int64_t> index, int64_t first, int64_t count, int64_t* out);

 private:
  enum class Step : uint8_t { kConstant, kAxis, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  struct Instruction {
    Step step{};
    int64_t value = 0;  // of the constant, or the axis
  };
  void emit(const Expr& expr, std::span<const int64_t> symbols);
  void push(Step step, int64_t value = 0);

  int rank_ = 0;
  size_t depth_ = 0;
  size_t max_depth_ = 0;
  std::vector<Instruction> program_;  // postfix
  std::vector<int64_t> stack_;        // kBlock per entry
};

}  // namespace common::interp
