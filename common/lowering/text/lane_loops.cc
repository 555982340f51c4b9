#include "common/lowering/text/lane_loops.h"

#include <cstdlib>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/lowering/text/c_text.h"

namespace common {

namespace {

constexpr int kStepSymbol =
    1 << 21;  // stands for the loop's index in checks; no kernel has as many

}  // namespace

// ---- StepChecks

bool StepChecks::decides(const Expr& position, const Expr& bound, bool* holds) {
  if (w_->loop_index(w_->depth()) != index_) return false;
  int64_t stride = stride_along(position, index_);
  if (std::abs(stride) >= INT32_MAX || stride_along(bound, index_) != 0) return false;
  auto at_index = [&](const Expr& index) { return with_index({position}, index_, index)[0]; };
  // Everything else must be known outside of the loop.
  int outside = w_->level_of_index(index_);
  if (w_->level_of(at_index(0)) >= outside || w_->level_of(bound) >= outside) return false;
  Check check{at_index(Expr::symbol(kStepSymbol)), bound};
  bool known = contains(checks_, check);
  if (assumed_) {
    *holds = known;
    return known;
  }
  if (!known) checks_.push_back(std::move(check));
  return true;
}

std::pair<std::string, std::string> StepChecks::range(const LaneBlock& block) {
  std::string lo = block.begin;
  std::string hi = block.end;
  std::string always;
  Var index{Var::Kind::kSymbol, kStepSymbol};
  for (const Check& check : checks_) {
    auto at_step = [&](const Expr& step) {
      return check.position.substitute([&](Var v) { return v == index ? step : Expr::var(v); });
    };
    Expr start = at_step(0);
    int64_t stride = (at_step(1) - start).constant();
    int64_t size = std::abs(stride);
    if (stride == 0) {
      std::string text = w_->text(start);
      always += cat(" & (", text, " >= 0) & (", text, " < ", w_->text(check.bound), ")");
      continue;
    }
    auto ceil_div = [&](const Expr& e) { return floor_div(e + (size - 1), size); };
    Expr low = stride > 0 ? ceil_div(-start) : floor_div(start - check.bound, size) + 1;
    Expr high = stride > 0 ? ceil_div(check.bound - start) : floor_div(start, size) + 1;
    lo = cat("lf_max_i64(", lo, ", ", w_->text(low), ")");
    hi = cat("lf_min_i64(", hi, ", ", w_->text(high), ")");
  }
  std::string from = w_->fresh("lo");
  std::string to = w_->fresh("hi");
  int around = w_->depth() - 1;
  w_->line(around, cat("const int64_t ", from, " = lf_min_i64(", lo, ", ", block.end, ");"));
  std::string end = cat("lf_max_i64(", hi, ", ", from, ")");
  if (!always.empty()) end = cat("1", always, " ? ", end, " : ", from);
  w_->line(around, cat("const int64_t ", to, " = ", end, ";"));
  return {from, to};
}

// ---- LaneLoops

void LaneLoops::open(LaneBlock block) {
  canonical_ = Expr::index(w_.bind_index(w_.fresh("lane"), block.extent, block.level));
  block_ = std::move(block);
  loops_.clear();
}

Expr LaneLoops::open_loop(const std::string& name) {
  const Expr& extent = block_->extent;
  int id = w_.open_loop(name, extent, min(extent, block_->width));
  w_.set_vectors({.is_asked = true});
  loops_.push_back(id);
  return Expr::index(id);
}

void LaneLoops::close_loop(const std::string& pragma, const std::string& from,
                           const std::string& to) {
  std::string i = w_.index_name(loops_.back());
  loops_.pop_back();
  w_.close(cat(pragma, counting_loop(i, from, to)));
}

int LaneLoops::lane_of(const Indices& indices, const Shape& shape) const {
  if (!block_) return -1;
  int lane = -1;
  bool fits = true;
  for (size_t k = 0; k < indices.size(); ++k) {
    indices[k].visit_vars([&](Var v) {
      if (v.kind != Var::Kind::kIndex) return;
      if (contains(loops_, v.id)) {
        fits = fits && (lane < 0 || lane == v.id);
        lane = v.id;
      } else {
        fits = fits && w_.level_of_index(v.id) <= block_->level;
      }
    });
    fits = fits && w_.bounds().provably_non_negative(indices[k]) &&
           w_.bounds().provably_less(indices[k], shape[k]);
  }
  return fits ? lane : -1;
}

std::string LaneLoops::place(const std::string& index) const {
  return cat("[", index, " - ", block_->begin, "]");
}

std::string LaneLoops::size() const { return cat("[", block_->width, "]"); }

}  // namespace common
