#include "common/base/cat.h"
#include "common/base/divide_up.h"
#include "worker/codegen/cuda/tile/tile_block.h"
#include "worker/codegen/cuda/tile/tile_stages.h"
#include "worker/codegen/cuda/tile/tile_wgmma.h"
#include "worker/codegen/cuda/tile/tma_copies.h"
#include "worker/codegen/cuda/tile/wgmma_products.h"

namespace worker {

using common::cat;
using common::CodeWriter;
using common::Contraction;
using common::GpuFunction;
using common::Graph;
using common::Result;
using common::Side;
using common::WarpgroupTiling;
using common::WindowGrid;

namespace {

constexpr int64_t kDepth = WgmmaProducts::kDepth;
constexpr int64_t kStep = 16;  // of k, that one product takes
// Of a tap's channels in registers.
constexpr int64_t kHalfSteps = kDepth / kStep / 2;
constexpr const char* kHalves[] = {"lower", "upper"};
constexpr int64_t kWarp = 32;
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kRowBytes = kDepth * 2;  // of a pixel
constexpr int64_t kBoxPixels = common::kTensorMapBoxMax;

// A convolution whose block copies the pixels that its windows read once for 64 channels and all
// taps: a run of the images' pixels with their borders, in the order of memory. A step of the sum
// is such a patch, and goes through the taps, whose weights are stages that divide them. Warps load
// the left operand from the patch into registers, half a tap's channels while the half before is
// multiplied: rows of the product are any pixels of the patch there, but would have to follow one
// another if products read them from shared memory.
//
// A thread of a warp of its own asks for patches and for weights, as in other blocks whose operands
// the copy engine brings. Patches have barriers like those of stages.
class PatchEmitter {
 public:
  PatchEmitter(const Contraction& contraction, const WarpgroupTiling& tiling)
      : block_(contraction, block_size(tiling)),
        w_(block_.writer()),
        s_(tiling),
        maps_(maps_of(contraction, tiling)),
        patch_(common::patch_pixels(contraction, tiling.rows)),
        grid_(*common::window_grid(maps_.windows)),
        stages_(block_, {kDepth, tiling.stages, true, true}),
        products_(block_, stages_) {}

  Result<GpuFunction> run() {
    stages_.set_along_k(Side::kRight, maps_.weights.along_k);
    block_.begin(shared_bytes() + WgmmaProducts::kPattern, s_.splits, s_.rows * s_.columns,
                 WgmmaProducts::kPattern);
    block_.declare_steps(kDepth * taps(), maps_.steps() * kDepth);
    begin_barriers();
    declare_place("first_pixel", cat("m0 * ", s_.rows));
    produce();
    consume();
    products_.store();
    LFARM_ASSIGN_OR_RETURN(GpuFunction function, block_.finish());
    function.block.threads += kWarp;
    function.cluster = s_.cluster;
    function.resident = s_.resident;
    function.waits = true;
    function.maps = {patch_map(maps_, grid_, box_pixels()), maps_.weights.map};
    return function;
  }

 private:
  static common::WindowMaps maps_of(const Contraction& contraction, const WarpgroupTiling& tiling) {
    auto maps =
        common::window_maps(contraction, tiling.rows, tiling.columns, kDepth, tiling.cluster);
    LFARM_CHECK(maps, "a convolution has maps of windows");
    return *std::move(maps);
  }
  int64_t warps() const { return block_.size().threads / kWarp; }  // that multiply
  int64_t patch_bytes() const { return patch_ * kRowBytes; }
  int64_t patches_at() const { return s_.stages * stages_.stage_bytes(); }
  int64_t shared_bytes() const { return products_.shared_bytes(s_.patches * patch_bytes()); }
  int64_t boxes() const { return common::divide_up(patch_, kBoxPixels); }
  int64_t box_pixels() const { return patch_ / boxes(); }

  void begin_barriers() {
    const int64_t stages = s_.stages, patches = s_.patches;
    block_.lines(cat("uint64_t* const full = (uint64_t*)(memory + ", shared_bytes(),
                     "), * const empty = full + ", stages, ", * const full_patch = empty + ",
                     stages, ", * const empty_patch = full_patch + ", patches,
                     ";\nunsigned char* const patches = memory + ", patches_at(),
                     ";\nif (tid == 0) {\n", unrolled_loop("i", stages),
                     " {\n    lf_barrier_init(full + i, 1);\n    lf_barrier_init(empty + i, ",
                     warps() * s_.cluster, ");\n  }\n", unrolled_loop("i", patches),
                     " {\n    lf_barrier_init(full_patch + i, 1);\n",
                     "    lf_barrier_init(empty_patch + i, ", warps(),
                     ");\n  }\n  lf_barrier_fence();\n}\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  // The first pixel of a window of the product's rows, counted with the borders.
  void declare_place(const char* name, const std::string& window) {
    const size_t axes = grid_.axes.size();
    std::string text = cat("int64_t ", name, " = 0;\n{\nint64_t window = ", window, ";\n");
    for (size_t a = 0; a < axes; ++a) {
      const WindowGrid::Axis& axis = grid_.axes[a];
      text += cat(name, " += window % ", axis.count, " * ", axis.step * grid_.stride(a),
                  ";\nwindow /= ", axis.count, ";\n");
    }
    block_.lines(cat(text, name, " += window * ", grid_.stride(axes), ";\n}"));
  }

  int64_t taps() const { return maps_.steps() / maps_.channel_steps(); }
  // Of a tap, the fastest axis first: where it is along an axis, and how far from the first pixel.
  int64_t tap_at(int64_t tap, size_t axis) const {
    for (size_t a = 0; a < axis; ++a) tap /= grid_.axes[a].taps;
    return tap % grid_.axes[axis].taps;
  }
  int64_t shift_of(int64_t tap) const {
    int64_t shift = 0;
    for (size_t a = 0; a < grid_.axes.size(); ++a) {
      shift += tap_at(tap, a) * grid_.axes[a].dilation * grid_.stride(a);
    }
    return shift;
  }
  std::string next_patch() const {
    return cat("if (++room == ", s_.patches, ") {\nroom = 0;\nturn ^= 1;\n}\n");
  }

  void produce() {
    w_.open(true);
    w_.open(true);
    if (s_.cluster > 1) w_.line(cat("const int rank = (int)blockIdx.x % ", s_.cluster, ";"));
    declare_boxes();
    block_.lines(cat("int channel = (int)(", block_.part_begin(), " / ", taps(),
                     ");\nint slot = 0, parity = 0, room = 0, turn = 0;\nlf_wait_for_earlier();"));
    w_.open(true);
    copy_patch();
    w_.open(true);
    copy_weights();
    w_.close(cat("#pragma unroll 1\nfor (int tap = 0; tap < ", taps(), "; ++tap)"));
    block_.lines(cat("channel += ", kDepth, ";"));
    w_.close("#pragma unroll 1\nfor (int step = 0; step < steps; ++step)");
    w_.close(cat("if (tid == ", block_.size().threads, ")"));
    block_.lines("lf_wait_for_earlier();\nreturn;");
    w_.close(cat("if (tid >= ", block_.size().threads, ")"));
  }

  void copy_weights() {
    block_.lines(cat("if (step > 0 || tap >= ", s_.stages,
                     ") lf_barrier_wait(empty + slot, parity ^ 1);\n",
                     "lf_barrier_expect(full + slot, ", stages_.stage_bytes(),
                     ");\nunsigned char* const to = memory + slot * ", stages_.stage_bytes(), ";"));
    std::string at;
    for (int axis : maps_.taps) {
      int64_t before = 1;
      for (int a = 0; a < axis; ++a) before *= grid_.axes[static_cast<size_t>(a)].taps;
      at += axis < 0 ? std::string(", 0")
                     : cat(", tap / ", before, " % ", grid_.axes[static_cast<size_t>(axis)].taps);
    }
    copy_boxes(block_, stages_, Side::kRight, maps_.weights, 1, "channel", at);
    block_.lines(cat("if (++slot == ", s_.stages, ") {\nslot = 0;\nparity ^= 1;\n}"));
  }

  // The first pixels of the boxes of which a patch is made, as coordinates of the map.
  void declare_boxes() {
    for (int64_t box = 0; box < boxes(); ++box) {
      std::string text = cat("int64_t pixel", box, " = first_pixel + ", box * box_pixels(), ";\n");
      for (size_t a = 0; a < grid_.axes.size(); ++a) {
        const int64_t padded = grid_.axes[a].padded;
        text += cat("const int at", box, a, " = (int)(pixel", box, " % ", padded, ") + ",
                    maps_.windows.axes[a].first, ";\npixel", box, " /= ", padded, ";\n");
      }
      block_.lines(text);
    }
  }

  void copy_patch() {
    std::string copies;
    for (int64_t box = 0; box < boxes(); ++box) {
      std::string at, pixel;
      for (size_t a = 0; a < grid_.axes.size(); ++a) {
        at += cat(", at", box, a);
        pixel += ", 0";
      }
      copies += cat("lf_copy_pixels(patches + room * ", patch_bytes(), " + ",
                    box * box_pixels() * kRowBytes, ", &map0, full_patch + room, channel", at,
                    ", (int)pixel", box, pixel, ");\n");
    }
    block_.lines(
        cat("if (step >= ", s_.patches, ") lf_barrier_wait(empty_patch + room, turn ^ 1);\n",
            "lf_barrier_expect(full_patch + room, ", patch_bytes(), ");\n", copies, next_patch()));
  }

  // Of each warp one lane says that a step's products have read their stage.
  std::string release(const std::string& slot) const {
    if (s_.cluster == 1) return cat("lf_barrier_arrive(empty + ", slot, ");\n");
    std::string text;
    for (int block = 0; block < s_.cluster; ++block) {
      text += cat("lf_barrier_arrive_in(empty + ", slot, ", ", block, ");\n");
    }
    return text;
  }

  // A lane names the row of the product that is its number modulo 16, and of 16 channels the lower
  // or the upper half. What follows from the pixel is computed anew: there is no room to keep it
  // for all taps.
  void load(int64_t tap, int half) {
    block_.lines(cat("{\nint pixel = own_pixel + ", shift_of(tap), ";\nlf_compute_again(pixel);\n",
                     "const unsigned char* const line = patches + room * ", patch_bytes(),
                     " + pixel * ", kRowBytes, ";\n", unrolled_loop("k", kHalfSteps),
                     " lf_ldmatrix_x4(", kHalves[half], "[k], line + (((k + ", half * kHalfSteps,
                     ") * 2 + lane / 16) ^ (pixel % 8)) * 16);\n}"));
  }
  void begin_patch() {
    w_.line("lf_barrier_wait(full_patch + room, turn);");
    load(0, 0);
  }

  // Multiplies a half of the tap's channels and loads the other meanwhile, as soon as the products
  // before have read its registers; then the next tap's first half likewise.
  void multiply(int64_t tap) {
    const int64_t slot = tap % s_.stages, former = (tap + s_.stages - 1) % s_.stages;
    block_.lines(cat("lf_barrier_wait(full + ", slot, ", parity ^ ", tap / s_.stages % 2, ");"));
    multiply_half(slot, 0);
    block_.lines(
        cat("if (lane == 0", tap == 0 ? " & step > 0" : "", ") {\n", release(cat(former)), "}"));
    load(tap, 1);
    const bool is_last = tap + 1 == taps();
    if (is_last) {
      block_.lines(cat("__syncwarp();\nif (lane == 0) lf_barrier_arrive(empty_patch + room);\n",
                       next_patch()));
    }
    multiply_half(slot, 1);
    if (!is_last) return load(tap + 1, 0);
    w_.open(true);
    begin_patch();
    w_.close("if (step + 1 < steps)");
  }
  void multiply_half(int64_t slot, int half) {
    w_.open(true);
    products_.multiply_registers(kHalves[half], cat(slot), half * kDepth / 2, kDepth / 2);
    w_.close("");
    w_.line("lf_wgmma_wait<1>();");
  }

  void consume() {
    products_.declare_sums();
    products_.declare_matrices();
    declare_place("own_place", cat("m0 * ", s_.rows, " + tid / 32 * 16 + lane % 16"));
    std::string words = cat("[", kHalfSteps, "][4]");
    block_.lines(cat("const int own_pixel = (int)(own_place - first_pixel);\nuint32_t ", kHalves[0],
                     words, ", ", kHalves[1], words,
                     ";\nint parity = 0, room = 0, turn = 0;\nlf_wait_for_earlier();"));
    begin_patch();
    w_.open(true);
    for (int64_t tap = 0; tap < taps(); ++tap) multiply(tap);
    if (taps() / s_.stages % 2 != 0) w_.line("parity ^= 1;");
    w_.close("#pragma unroll 1\nfor (int step = 0; step < steps; ++step)");
    block_.lines(cat("lf_wgmma_wait<0>();\nlf_wgmma_done(sum);\n",
                     s_.cluster > 1 ? "lf_cluster_sync();" : "__syncthreads();"));
  }

  CudaTileBlock block_;
  CodeWriter& w_;
  WarpgroupTiling s_;
  common::WindowMaps maps_;
  int64_t patch_;  // pixels
  WindowGrid grid_;
  CudaTileStages stages_;
  WgmmaProducts products_;
};

}  // namespace

Result<GpuFunction> emit_cuda_tile_patch(const Contraction& contraction,
                                         const WarpgroupTiling& tiling) {
  return PatchEmitter(contraction, tiling).run();
}

}  // namespace worker
