// Whether it pays to search on: what the last candidates gained and how long ago that was.
#pragma once

#include <cstdint>
#include <deque>

namespace coordinator {

class Gains {
 public:
  // A result came, and the whole takes this long now, as far as is known.
  void note(double now_ns);
  // Whether another hundred candidates are, with 95 % confidence, worth less than this share of the
  // time.
  bool promise_less_than(double share) const;
  int64_t in_vain() const { return in_vain_; }

 private:
  double reached_ns_ = 0;  // the best estimate so far, but for steps too small to count
  int64_t in_vain_ = 0;    // results since
  std::deque<double> gains_;
};

}  // namespace coordinator
