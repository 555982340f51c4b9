#include "common/lowering/body/nest_advisor.h"

#include <algorithm>
#include <cstdlib>

#include "common/base/contains.h"

namespace common {

void NestAdvisor::note_load(const Expr& offset) {
  if (loops_.size() < 2 || std::abs(stride_along(offset, loops_.back())) <= 1) return;
  for (size_t k = 0; k + 1 < loops_.size(); ++k) {
    if (stride_along(offset, loops_[k]) == 1) advice_.across.insert(k);
  }
}

void NestAdvisor::note_reduction(const Indices& indices) {
  if (loops_.empty()) return;
  std::vector<bool> uses(loops_.size(), false);
  bool known_outside = true;
  for (const Expr& e : indices) {
    e.visit_vars([&](Var v) {
      if (v.kind != Var::Kind::kIndex) return;
      auto found = std::find(loops_.begin(), loops_.end(), v.id);
      if (found != loops_.end()) {
        uses[static_cast<size_t>(found - loops_.begin())] = true;
      } else if (w_.level_of_index(v.id) >= w_.level_of_index(loops_[0])) {
        known_outside = false;
      }
    });
  }
  if (!known_outside) return;
  if (uses.back()) {
    advice_.lanes = true;
    for (size_t k = 0; k + 1 < uses.size(); ++k) {
      if (uses[k]) advice_.position = std::max(advice_.position, k + 1);
    }
  }
  if (!contains(advice_.dependencies, uses)) {
    advice_.dependencies.push_back(std::move(uses));
  }
}

}  // namespace common
