// What warps' accesses are said to cost, of kernels whose costs follow from their text.
#include "tests/emulator/accesses/access_run.h"

#include <gtest/gtest.h>

#include "worker/codegen/cuda/cuda.h"

namespace emulator {
namespace {

// A kernel of one buffer that is read and one that is written.
AccessRun of(const std::string& body, uint64_t bytes = 1 << 20) {
  AccessRun run;
  run.preamble = worker::CudaCodeGenerator(common::Target{"cuda-sm_90a"}).preamble();
  run.entry = "k";
  run.text =
      "extern \"C\" __global__ void k(const float* __restrict__ in, float* __restrict__ out,\n"
      "                               int64_t units, char* areas, int64_t stride) {\n"
      "  const int64_t i = blockIdx.x * 64 + threadIdx.x;\n" +
      body + "\n}\n";
  run.buffers = {{bytes, false}, {bytes, true}};
  run.units = 64;
  run.blocks = 1;
  run.threads = 64;
  return run;
}

double sectors_ratio(const AccessFigures& f) { return f.sums.sectors / f.sums.sectors_least; }
double shared_ratio(const AccessFigures& f) { return f.sums.wavefronts / f.sums.wavefronts_least; }

TEST(AccessRun, NeighboursShareSectors) {
  const AccessFigures f = run_accesses(of("out[i] = in[i] + 1;"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.sectors, 2 * 2 * 4);  // warps, a load and a store, 128 bytes
  EXPECT_EQ(sectors_ratio(f), 1);
  EXPECT_EQ(f.sums.load_bytes[2], 64 * 4);
  EXPECT_EQ(f.sums.wavefronts, 0);
}

TEST(AccessRun, ColumnsTouchASectorForEachElement) {
  const AccessFigures f = run_accesses(of("out[i] = in[i * 1024];"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.sectors, 2 * (32 + 4));
  EXPECT_EQ(f.sums.sectors_least, 2 * (4 + 4));
}

TEST(AccessRun, OneAddressForAllLanesIsOneSector) {
  const AccessFigures f = run_accesses(of("out[i] = in[7];"));
  EXPECT_EQ(f.sums.sectors, 2 * (1 + 4));
  EXPECT_EQ(sectors_ratio(f), 1);
}

TEST(AccessRun, SixteenBytesAreOneAccess) {
  const AccessFigures f =
      run_accesses(of("const LfVec<float, 4> x = lf_load<float, 4>(in + 4 * i);\n"
                      "LfVec<float, 4> y;\n"
                      "for (int e = 0; e < 4; ++e) y.e[e] = x[e] * x[e];\n"
                      "lf_store<float, 4>(out + 4 * i, y);"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.sectors, 2 * 2 * 16);
  EXPECT_EQ(sectors_ratio(f), 1);
}

TEST(AccessRun, LanesThatGoOnLaterAreOfTheSameAccess) {
  const AccessFigures f =
      run_accesses(of("float s = 0;\n"
                      "for (int64_t k = i; k < 4096; k += 64) s += in[k];\n"
                      "out[i] = lf_team<LfSum, 32, 1>(s);"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.load_bytes[2], 4096 * 4);
  EXPECT_EQ(sectors_ratio(f), 1);
}

TEST(AccessRun, BanksServeOneWordATurn) {
  const char* columns =
      "__shared__ float tile[64 * 32];\n"
      "tile[threadIdx.x % 32 * STRIDE] = in[i];\n"
      "__syncthreads();\n"
      "out[i] = tile[threadIdx.x % 32 * STRIDE];";
  auto with = [&](const std::string& stride) {
    return run_accesses(of("#define STRIDE " + stride + "\n" + columns));
  };
  EXPECT_EQ(with("1").sums.wavefronts, 2 * 2);
  EXPECT_EQ(shared_ratio(with("2")), 2);
  EXPECT_EQ(shared_ratio(with("32")), 32);
  EXPECT_EQ(shared_ratio(with("33")), 1);
}

TEST(AccessRun, WideAccessesOfSharedMemoryTakeQuartersOfAWarp) {
  const char* rows =
      "__shared__ uint4 rows[64 * 16];\n"
      "rows[threadIdx.x * STRIDE] = *(const uint4*)(in + 4 * i);\n"
      "__syncthreads();\n"
      "out[i] = rows[63 * STRIDE - threadIdx.x * STRIDE].x;";
  auto with = [&](const std::string& stride) {
    return run_accesses(of("#define STRIDE " + stride + "\n" + rows));
  };
  const AccessFigures near = with("1");
  EXPECT_EQ(near.problem, "");
  EXPECT_EQ(near.sums.wavefronts_least, 2 * (4 + 1));  // what is read is one word a lane
  EXPECT_EQ(near.sums.wavefronts, 2 * (4 + 4));
  EXPECT_EQ(with("8").sums.wavefronts, 2 * (4 * 8 + 32));
}

TEST(AccessRun, MatricesAndCopiesCount) {
  const AccessFigures f =
      run_accesses(of("__shared__ __align__(128) uint16_t tile[64 * 8];\n"
                      "lf_cp_async16(tile + threadIdx.x * 8, (const char*)in + 16 * i);\n"
                      "lf_cp_async_commit();\n"
                      "lf_cp_async_wait<0>();\n"
                      "__syncthreads();\n"
                      "uint32_t r[4];\n"
                      "lf_ldmatrix_x4(r, tile + threadIdx.x * 8);\n"
                      "out[i] = lf_f32_bits(r[0]);"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.load_bytes[4], 64 * 16);
  EXPECT_EQ(f.sums.sectors, 2 * (16 + 4));
  EXPECT_EQ(f.sums.wavefronts, 2 * (4 + 4));
  EXPECT_EQ(shared_ratio(f), 1);
}

// A table of 64 GiB takes no memory, and blocks far apart in it are run.
TEST(AccessRun, GridsAndBuffersHaveTheirRealSizes) {
  AccessRun run = of("out[i * 4096] = in[i * 4096];", uint64_t{64} << 30);
  run.blocks = (int64_t{1} << 34) / (64 * 4096);
  const AccessFigures f = run_accesses(run);
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.blocks, 3);
  EXPECT_EQ(sectors_ratio(f), 8);
}

TEST(AccessRun, NobodyWaitsForBlocksThatDoNotRun) {
  AccessRun run =
      of("const int64_t ticket = lf_ticket(areas, 2, gridDim.x);\n"
         "if (ticket > 3) lf_await(areas, 1, 4);\n"
         "out[ticket * 64 + threadIdx.x] = 1;\n"
         "if (!lf_is_last(areas, blockIdx.x / 4, 4)) return;\n"
         "out[threadIdx.x] = in[threadIdx.x * 8];");
  run.blocks = 8;  // of which 0, 3 and 7 run
  const AccessFigures f = run_accesses(run);
  EXPECT_EQ(f.problem, "");
  // Of each four blocks the last loads: the average of those that ran is a quarter of its loads.
  EXPECT_EQ(f.sums.load_bytes[2], 3 * 64 * 4 / 4);
  EXPECT_EQ(f.longest_load_bytes, 64 * 4);
}

// Operands of tensor products that go from memory into registers, two of four words of each lane.
TEST(AccessRun, OperandsOfProductsAreLoaded) {
  const AccessFigures f =
      run_accesses(of("const uint4 x = lf_load_once16(in + i * 4);\n"
                      "const uint32_t a[4] = {x.x, 0, x.y, 0}, b[2] = {x.z, x.w};\n"
                      "float sum[4] = {};\nlf_mma_bf16(sum, a, b);\nout[i] = sum[0];"));
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.load_bytes[4], 64 * 16);
  EXPECT_EQ(sectors_ratio(f), 1);
}

// What steers a loop is given; behind it, and elsewhere, are zeros.
TEST(AccessRun, InputsBeginWithGivenBytes) {
  AccessRun run = of("for (int k = 0; k < in[0] + in[1] + in[2]; ++k) out[64 * k + i] = 1;");
  const float first[] = {2, 3};
  const auto* bytes = reinterpret_cast<const std::byte*>(first);
  run.buffers[0].first.assign(bytes, bytes + sizeof first);
  const AccessFigures f = run_accesses(run);
  EXPECT_EQ(f.problem, "");
  EXPECT_EQ(f.sums.store_bytes, 5 * 64 * 4);
}

TEST(AccessRun, EndlessBlocksAreEnded) {
  const AccessFigures f =
      run_accesses(of("volatile float* const seen = out;\nwhile (in[i] == 0) seen[i] = 1;"));
  EXPECT_NE(f.problem.find("more than is followed"), std::string::npos) << f.problem;
}

TEST(AccessRun, WhatCannotRunSaysWhy) {
  EXPECT_NE(run_accesses(of("out[i] = in[i] +;")).problem.find("does not compile"),
            std::string::npos);
  EXPECT_NE(run_accesses(of("out[i] = in[i + (1 << 18)];")).problem.find("illegal address"),
            std::string::npos);
}

}  // namespace
}  // namespace emulator
