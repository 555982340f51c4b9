#include <algorithm>

#include "common/base/cat.h"
#include "worker/codegen/cuda/tile/tma_copies.h"

namespace worker {

using common::cat;
using common::Side;
using common::WindowOperand;

namespace {

// The sum goes through the taps of windows, the fastest axis first, and for each through the
// channels. Rows of the product are windows in the order of memory, so that a block's first one
// says which they are.
class WindowCopies : public TmaCopies {
 public:
  WindowCopies(CudaTileBlock& block, int64_t depth, common::WindowMaps maps, int number)
      : block_(block), depth_(depth), maps_(std::move(maps)), number_(number) {}

  std::vector<common::TensorMap> maps() const override { return {maps_.pixels, maps_.weights.map}; }
  bool along_k(Side side) const override { return side == Side::kLeft || maps_.weights.along_k; }
  common::Expr depth() const override { return maps_.steps() * depth_; }
  int64_t used_depth(int64_t depth) const override {
    return maps_.channel_steps() == 1 ? std::min(depth, maps_.windows.channels) : depth;
  }

  void begin() override {
    begin_rows();
    std::string first = cat("(int)(", block_.part_begin(), " / ", depth_, ")");
    const int64_t channel_steps = maps_.channel_steps();
    block_.lines(cat("int rest = ", first, ";\nint channel = rest % ", channel_steps, " * ", depth_,
                     ";\nrest /= ", channel_steps, ";"));
    for (size_t a = 0; a < axes().size(); ++a) {
      if (axes()[a].taps == 1) continue;
      block_.lines(
          cat("int tap", a, " = rest % ", axes()[a].taps, ";\nrest /= ", axes()[a].taps, ";"));
    }
  }

  void copy(const CudaTileStages& stages) override {
    std::string window, pixel, taps;
    for (size_t a = 0; a < axes().size(); ++a) {
      window += cat(", at", a);
      pixel +=
          axes()[a].taps == 1 ? std::string(", 0") : cat(", tap", a, " * ", axes()[a].dilation);
    }
    for (int axis : maps_.taps) {
      bool is_walked = axis >= 0 && axes()[static_cast<size_t>(axis)].taps > 1;
      taps += is_walked ? cat(", tap", axis) : std::string(", 0");
    }
    block_.lines(cat("lf_copy_pixels(to, &map", number_, ", full + slot, channel", window,
                     ", image", pixel, ");"));
    copy_boxes(block_, stages, Side::kRight, maps_.weights, number_ + 1, "channel", taps);
  }

  void advance() override {
    std::string text = cat("channel += ", depth_, ";\n");
    std::string next = cat("channel >= ", maps_.windows.channels);
    std::string end = "channel = 0;\n";
    int open = 0;
    for (size_t a = 0; a < axes().size(); ++a) {
      if (axes()[a].taps == 1) continue;
      text += cat("if (", next, ") {\n", end, "++tap", a, ";\n");
      next = cat("tap", a, " == ", axes()[a].taps);
      end = cat("tap", a, " = 0;\n");
      ++open;
    }
    block_.lines(text + std::string(static_cast<size_t>(open), '}'));
  }

 private:
  const std::vector<WindowOperand::Axis>& axes() const { return maps_.windows.axes; }

  // The block's first window, as coordinates of the map.
  void begin_rows() {
    common::CodeWriter& w = block_.writer();
    block_.lines(cat("int64_t row = m0 * ", block_.size().rows, ";"));
    for (size_t a = 0; a < axes().size(); ++a) {
      const WindowOperand::Axis& axis = axes()[a];
      std::string count = w.rare_text(axis.count);
      block_.lines(cat("const int at", a, " = (int)(row % ", count, ") * ", axis.step, " + ",
                       axis.first, ";\nrow /= ", count, ";"));
    }
    block_.lines("const int image = (int)row;");
  }

  CudaTileBlock& block_;
  int64_t depth_;
  common::WindowMaps maps_;
  int number_;
};

}  // namespace

std::unique_ptr<TmaCopies> window_copies(CudaTileBlock& block,
                                         const common::Contraction& contraction, int64_t depth,
                                         int number) {
  const CudaBlockSize& size = block.size();
  auto maps = window_maps(contraction, size.rows, size.columns, depth, size.cluster);
  if (!maps) return nullptr;
  return std::make_unique<WindowCopies>(block, depth, *std::move(maps), number);
}

}  // namespace worker
