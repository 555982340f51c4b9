// The copy engine, barriers in shared memory and clusters: the emulated ones do what NVIDIA's
// documentation says and refuse what it leaves undefined, and the same kernels compile with the
// real compiler.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <regex>

#include "tests/emulator/gpu.h"
#include "tests/emulator/tensor_map.h"
#include "worker/codegen/cuda/cuda.h"

namespace emulator {
namespace {

// Two blocks of a cluster, of one warpgroup and a warp that copies. Each block gets a box of its
// own (1 KiB), and one that the first block sends to both; the warpgroup stores both as they lie in
// shared memory, block after block. The words in capitals are a case's own.
constexpr char kBoxes[] = R"(
extern "C" __global__ void __launch_bounds__(160) __cluster_dims__(2, 1, 1) lf_test_boxes(
    uint32_t* out, int x, int y, int bytes, const __grid_constant__ lf_tensor_map map0) {
  extern __shared__ __align__(1024) unsigned char lf_shared_1024[];
  unsigned char* const memory = lf_shared_1024;
  uint64_t* const barrier = (uint64_t*)(memory + 4096);
  const int tid = threadIdx.x, rank = blockIdx.x % 2;
  if (tid == 0) {
    lf_barrier_init(barrier, 1);
    lf_barrier_init(barrier + 1, ARRIVALS);
    INITIALISED
  }
  lf_cluster_sync();
  if (tid >= 128) {
    if (tid == 128) {
      lf_barrier_expect(barrier, EXPECTED);
      lf_copy_box(memory OFFSET, &map0, barrier, x, y + rank * 8);
      if (rank == 0) lf_copy_box_to(BLOCKS, memory + 1024, &map0, barrier, x, y + 16);
      COPIED
    }
    return;
  }
  MIDDLE
  WAIT
  for (int i = tid; i < 512; i += 128) out[rank * 512 + i] = ((const uint32_t*)memory)[i];
  END
  lf_cluster_sync();
})";

struct Case {
  std::string arrivals = "2", initialised = "lf_barrier_fence();", expected = "2 * bytes", offset,
              blocks = "3", copied, middle, wait = "lf_barrier_wait(barrier, 0);", end;
};

std::string with_preamble(const std::string& kernels) {
  return worker::CudaCodeGenerator({"cuda-sm_90a"}).preamble() + kernels;
}

std::string kernel_of(const Case& c) {
  std::string text = kBoxes;
  const auto put = [&](const char* name, const std::string& with) {
    text = std::regex_replace(text, std::regex(std::string("\\b") + name + "\\b"), with);
  };
  put("ARRIVALS", c.arrivals);
  put("INITIALISED", c.initialised);
  put("EXPECTED", c.expected);
  put("OFFSET", c.offset);
  put("BLOCKS", c.blocks);
  put("COPIED", c.copied);
  put("MIDDLE", c.middle);
  put("WAIT", c.wait);
  put("END", c.end);
  return with_preamble(text);
}

constexpr int kColumns = 72, kRows = 40, kBoxRows = 8;
uint16_t value(int row, int column) { return static_cast<uint16_t>(1 + row * 100 + column); }

// A tensor of kRows rows of kColumns halves, in boxes of eight rows of `box_bytes`.
struct Tensor {
  int box_bytes = 128, swizzle = 128;
  EncodedMap map(Gpu& gpu) const {
    std::vector<uint16_t> values;
    for (int i = 0; i < kRows * kColumns; ++i) values.push_back(value(i / kColumns, i % kColumns));
    constexpr int kFloat16 = 6;
    const uint64_t sizes[] = {kColumns, kRows}, strides[] = {kColumns * 2};
    const uint32_t box[] = {static_cast<uint32_t>(box_bytes / 2), kBoxRows}, steps[] = {1, 1};
    EncodedMap map;
    gpu.check(api().cuTensorMapEncodeTiled(
        &map, kFloat16, 2, reinterpret_cast<void*>(gpu.upload(values)),  // NOLINT: a GPU's address
        sizes, strides, box, steps, 0,
        swizzle == 0    ? 0
        : swizzle == 32 ? 1
        : swizzle == 64 ? 2
                        : 3,
        0, 0));
    return map;
  }
};

// What both blocks stored, as halves, or the fault that ended the kernel.
int run(const Case& c, const Tensor& tensor, int x, int y, std::vector<uint16_t>* out) {
  Gpu gpu;
  void* kernel = gpu.kernel(kernel_of(c), "lf_test_boxes");
  const uint64_t result = gpu.upload(std::vector<uint16_t>(2048, 7));
  gpu.check(
      gpu.launch(kernel, 2, 160, 8192, result, x, y, tensor.box_bytes * kBoxRows, tensor.map(gpu)));
  const int code = gpu.synchronise();
  if (code == 0) *out = gpu.download<uint16_t>(result, 2048);
  return code;
}

// Where the box that begins at (x, y) has its element, and what it is.
void expect_box(const std::vector<uint16_t>& out, size_t first, const Tensor& tensor, int x,
                int y) {
  const int row_halves = tensor.box_bytes / 2;
  for (int row = 0; row < kBoxRows; ++row) {
    for (int column = 0; column < row_halves; ++column) {
      size_t byte = static_cast<size_t>(row * tensor.box_bytes + column * 2);
      const size_t turns = tensor.swizzle == 0 ? 0 : byte / 128 % (tensor.swizzle / 16);
      byte ^= turns * 16;
      const bool is_inside = y + row < kRows && x + column < kColumns;
      ASSERT_EQ(out[first + byte / 2], is_inside ? value(y + row, x + column) : 0)
          << tensor.swizzle << " row " << row << " column " << column;
    }
  }
}

TEST(Boxes, LieAsTheTensorMapSays) {
  // Fails when chunks are permuted otherwise than products read them, when what lies beyond the
  // tensor is no zero, or when a block of the cluster gets another one's box.
  for (const Tensor& tensor :
       {Tensor{128, 128}, Tensor{64, 64}, Tensor{32, 32}, Tensor{64, 0}, Tensor{128, 0}}) {
    for (const auto& [x, y] : {std::pair{0, 0}, std::pair{16, 21}}) {
      std::vector<uint16_t> out;
      ASSERT_EQ(run({}, tensor, x, y, &out), 0);
      for (int rank = 0; rank < 2; ++rank) {
        const auto first = static_cast<size_t>(rank) * 1024;
        expect_box(out, first, tensor, x, y + rank * 8);
        expect_box(out, first + 512, tensor, x, y + 16);
      }
    }
  }
}

TEST(Boxes, AreNotThereBeforeTheWait) {
  // Fails when a box comes at once: a kernel that forgets to wait would pass.
  Case c;
  c.wait = "";
  c.end = "lf_barrier_wait(barrier, 0);";
  std::vector<uint16_t> out;
  ASSERT_EQ(run(c, {}, 0, 0, &out), 0);
  EXPECT_EQ(out[0], 0xffff);
}

TEST(Boxes, PhasesAlternate) {
  // Fails when a wait for one phase ends with another, or an arrival at another block is lost: each
  // block stores its box only after both blocks' first threads came twice.
  Case c;
  c.middle = R"(
    for (int turn = 0; turn < 2; ++turn) {
      if (tid == 0) lf_barrier_arrive(barrier + 1);
      if (tid == 0) lf_barrier_arrive_in(barrier + 1, 1 - rank);
      lf_barrier_wait(barrier + 1, turn);
      __syncthreads();
    })";
  std::vector<uint16_t> out;
  ASSERT_EQ(run(c, {}, 0, 0, &out), 0);
  expect_box(out, 0, {}, 0, 0);
}

// The documentation leaves each of these undefined, or never ends. Where one is not noticed, a
// kernel that is wrong only on hardware passes all tests.
TEST(Boxes, UndefinedUsesEndTheKernel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::vector<std::pair<const char*, Case>> cases;
  const auto add = [&](const char* said) -> Case& {
    return cases.emplace_back(said, Case()).second;
  };
  add("was not fenced after its initialisation").initialised = "";
  add("for a barrier's phase at line").expected = "3 * bytes";
  add("more bytes come than the phase").expected = "bytes";
  add("more bytes come than the phase").copied =
      "lf_copy_box(memory + 2048, &map0, barrier, x, y);";
  add("more threads arrive at a barrier").copied =
      "lf_barrier_expect(barrier + 1, 16); lf_barrier_arrive(barrier + 1); "
      "lf_barrier_arrive(barrier + 1);";
  add("a barrier that was stored over").middle = "if (tid == 5) ((uint32_t*)memory)[1024] = 0;";
  add("was not initialised").wait = "lf_barrier_wait(barrier + 2, 0);";
  add("at no multiple of 128 bytes").offset = "+ 64";
  add("beyond the dynamic shared memory").offset = "+ 8192 - 128";
  add("there is no such block in the cluster").blocks = "7";
  add("of a block that has ended").middle =
      "if (rank == 1) return; __syncthreads(); if (tid == 0) lf_barrier_arrive_in(barrier + 1, 1);";
  add("a write to a matrix that the product").copied =
      "lf_barrier_wait(barrier + 1, 0); "
      "lf_copy_box(memory, &map0, barrier, x, y);";
  cases.back().second.end = R"(
    float sum[32] = {};
    const uint64_t matrix = lf_matrix(memory, 16, 0, 128);
    lf_wgmma_fence();
    lf_wgmma_f16<0, 0>(sum, matrix, matrix);
    lf_wgmma_commit();
    if (tid == 0) lf_barrier_arrive_in(barrier + 1, 0), lf_barrier_arrive_in(barrier + 1, 1);
    lf_cluster_sync();
    lf_wgmma_wait<0>();)";
  for (const auto& [said, c] : cases) {
    std::vector<uint16_t> out;
    EXPECT_EXIT(std::_Exit(run(c, {}, 0, 0, &out) == kLaunchFailed ? 0 : 1),
                testing::ExitedWithCode(0), said)
        << said;
  }
}

TEST(Boxes, DriverEncodesWhatDevicesRead) {
  // Fails when a map that a device refuses, or reads otherwise, is encoded here.
  Gpu gpu;
  const uint64_t memory = gpu.memory(1 << 16);
  struct Wanted {
    uint64_t offset = 0, stride = 256, size = 64;
    uint32_t rank = 2, box = 64;
    int swizzle = 3;
  };
  const auto encoded = [&](const Wanted& w) {
    const uint64_t sizes[] = {w.size, 16}, strides[] = {w.stride};
    const uint32_t box[] = {w.box, 8}, steps[] = {1, 1};
    EncodedMap map;
    return api().cuTensorMapEncodeTiled(
        &map, 9, w.rank, reinterpret_cast<void*>(memory + w.offset),  // NOLINT: a GPU's address
        sizes, strides, box, steps, 0, w.swizzle, 0, 0);
  };
  EXPECT_EQ(encoded({}), 0);
  for (const Wanted& w :
       {Wanted{.offset = 8}, Wanted{.stride = 200}, Wanted{.size = 0}, Wanted{.rank = 0},
        Wanted{.rank = 6}, Wanted{.box = 128}, Wanted{.box = 0}, Wanted{.swizzle = 9}}) {
    EXPECT_EQ(encoded(w), kInvalidValue)
        << w.offset << " " << w.stride << " " << w.size << " " << w.rank << " " << w.box;
  }
}

TEST(Boxes, ClustersAreWhole) {
  // Fails when a launch that would leave a cluster without its blocks runs.
  Gpu gpu;
  void* kernel = gpu.kernel(kernel_of({}), "lf_test_boxes");
  EXPECT_EQ(gpu.launch(kernel, 3, 160, 8192, uint64_t{0}, 0, 0, 0, EncodedMap()), kInvalidValue);
}

TEST(Boxes, RealCompilerTakesTheSameKernels) {
  // Fails when the wrappers' PTX is not what NVIDIA's assembler accepts.
  const Api nvrtc = real_nvrtc();
  if (nvrtc.nvrtcCompileProgram == nullptr) GTEST_SKIP() << "no NVRTC here: install CUDA 12 or 13";
  Case c;
  c.middle =
      "if (tid == 0) { lf_barrier_arrive(barrier + 1); lf_barrier_arrive_in(barrier + 1, 1); }";
  c.copied =
      "lf_copy_box(memory, &map0, barrier, x, y, 0); lf_copy_box(memory, &map0, barrier, x, y, 0, "
      "0); lf_copy_box_to(3, memory, &map0, barrier, x, y, 0, 0, 0);";
  const Compiled compiled = compile(nvrtc, kernel_of(c), "sm_90a");
  EXPECT_EQ(compiled.result, 0) << compiled.log;
  EXPECT_GT(compiled.cubin.size(), 1000u);
}

}  // namespace
}  // namespace emulator
