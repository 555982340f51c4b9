#include "tests/bench/gpu_static/warp_clocks.h"

#include <algorithm>
#include <array>

#include "common/cost/gpu_time.h"

namespace bench {
namespace {

using common::SassClass;
using common::SassInstruction;
using common::SassKernel;

constexpr size_t kScoreboards = 6;

// Until the value is there. Of caches, shared memory and tensor cores as measured on an H100 (Luo
// et al., arXiv:2402.13499); of the other units as on earlier architectures (Jia et al.,
// arXiv:1804.06826).
double latency(SassClass kind) {
  switch (kind) {
    case SassClass::kGlobalLoad:
    case SassClass::kAsyncCopy:
      return common::kGpuMemoryClocks;
    case SassClass::kAtomic:
      return common::kGpuCacheClocks;
    case SassClass::kLocalLoad:
    case SassClass::kConstantLoad:
      return 41;
    case SassClass::kTensor:
      return 32;
    case SassClass::kSharedLoad:
      return 29;
    case SassClass::kShuffle:
      return 23;
    case SassClass::kFunction:
    case SassClass::kDouble:
      return 18;
    default:
      return 8;
  }
}
// Of a block's warps that meet, beyond the wait for the last of them.
constexpr double kBarrier = 20;
// A fence returns when the second cache has seen all writes.
constexpr uint16_t kFence = 0x192;
// The wait for earlier kernels: what comes before it runs while they do.
constexpr uint16_t kWaitForEarlier = 0x02e;
constexpr uint16_t kWarpgroupProduct = 0x1f0;

class Walk {
 public:
  Walk(const SassKernel& kernel, const std::vector<double>& trips, double product_clocks,
       double first_box)
      : kernel_(kernel), trips_(trips), product_clocks_(product_clocks), first_box_(first_box) {}

  double run() {
    if (!kernel_.code.empty()) walk(0, kernel_.code.size() - 1, -1);
    return clock_;
  }
  // Of a kernel that asks for boxes.
  double first_box() const { return first_box_; }

 private:
  void walk(size_t first, size_t last, int within) {
    for (size_t k = first; k <= last; ++k) {
      int loop = loop_at(k, last, within);
      if (loop >= 0) {
        turn(loop);
        k = kernel_.loops[static_cast<size_t>(loop)].last;
      } else if (kernel_.code[k].is_reached) {
        step(kernel_.code[k]);
      }
    }
  }

  // The loop that begins here and ends before `last`; loops that only overlap count once.
  int loop_at(size_t k, size_t last, int within) const {
    for (size_t l = 0; l < kernel_.loops.size(); ++l) {
      bool is_inside = kernel_.loops[l].first == k && kernel_.loops[l].last <= last;
      if (is_inside && static_cast<int>(l) != within) return static_cast<int>(l);
    }
    return -1;
  }

  // The first step finds nothing under way but what was before the loop, and the second one may
  // wait for that; all others are alike.
  void turn(int loop) {
    const common::SassLoop& l = kernel_.loops[static_cast<size_t>(loop)];
    walk(l.first, l.last, loop);
    double more = trips_[static_cast<size_t>(loop)] - 1, before = clock_;
    for (int step = 0; step < 2 && more > 0; ++step, --more) {
      before = clock_;
      walk(l.first, l.last, loop);
    }
    // A part of a step, too, where trips are a mean.
    double rest = (clock_ - before) * more;
    clock_ += rest;
    for (double& ready : ready_) ready += rest;
    for (double& ready : groups_) ready += rest;
    for (double& ready : products_) ready += rest;
    multiplied_ += rest;
    open_ += rest;
  }

  void step(const SassInstruction& x) {
    for (size_t board = 0; board < kScoreboards; ++board) {
      if ((x.waits >> board & 1) != 0) clock_ = std::max(clock_, ready_[board]);
    }
    while (x.copies_left >= 0 && groups_.size() > static_cast<size_t>(x.copies_left)) {
      clock_ = std::max(clock_, groups_.front());
      groups_.erase(groups_.begin());
    }
    while (x.products_left >= 0 && products_.size() > static_cast<size_t>(x.products_left)) {
      clock_ = std::max(clock_, products_.front());
      products_.erase(products_.begin());
    }
    if (x.kind == SassClass::kBarrier) clock_ += kBarrier;
    if (x.opcode == kFence) clock_ += common::kGpuCacheClocks;
    if (x.opcode == kWaitForEarlier) {
      clock_ = 0;
      ready_ = {};
    }
    double done = clock_ + latency(x.kind);
    if (x.scoreboard >= 0) {
      double& ready = ready_[static_cast<size_t>(x.scoreboard)];
      ready = std::max(ready, done);
    }
    if (x.kind == SassClass::kAsyncCopy) open_ = std::max(open_, done);
    if (x.ends_copies) groups_.push_back(open_);
    if (x.kind == SassClass::kBoxCopy && first_box_ == 0) {
      first_box_ = clock_ + common::kGpuMemoryClocks;
    }
    // Tensor cores take product after product, while the warp goes on; later boxes come meanwhile.
    if (x.opcode == kWarpgroupProduct) {
      multiplied_ = std::max({multiplied_, clock_, first_box_}) + product_clocks_;
    }
    if (x.ends_products) products_.push_back(multiplied_);
    clock_ += std::max<int>(1, x.stall);
  }

  const SassKernel& kernel_;
  const std::vector<double>& trips_;
  double clock_ = 0;
  std::array<double, kScoreboards> ready_{};
  std::vector<double> groups_;    // of asynchronous copies, the oldest first
  double open_ = 0;               // copies of no group yet
  std::vector<double> products_;  // of warpgroup products' groups, likewise
  double multiplied_ = 0;         // until the tensor cores have done what they were given
  double product_clocks_;
  double first_box_;  // until it is there; 0: none is asked for
};

}  // namespace

double warp_clocks(const SassKernel& kernel, const std::vector<double>& trips,
                   double product_clocks, double first_box) {
  return Walk(kernel, trips, product_clocks, first_box).run();
}

double clocks_to_first_box(const SassKernel& kernel) {
  const std::vector<double> once(kernel.loops.size(), 1);
  Walk walk(kernel, once, 0, 0);
  walk.run();
  return std::max(0.0, walk.first_box() - common::kGpuMemoryClocks);
}

}  // namespace bench
