// The support code of kernels: if these fail, a file of worker/codegen/*/support does not compile
// by itself, so that an editor, a formatter or a reader sees something other than what is printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/cuda/nvrtc.h"
#include "common/process/subprocess.h"
#include "worker/codegen/c/cpu_c.h"
#include "worker/codegen/cuda/cuda.h"

namespace worker {
namespace {

using common::cat;

constexpr int kTimeoutMs = 60'000;

// The paths of the files in worker/codegen/`room`/support, from the repository's root.
std::vector<std::string> support_files(const std::string& room) {
  const std::string folder = cat("worker/codegen/", room, "/support");
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(cat(LFARM_SOURCE_DIR, "/", folder))) {
    files.push_back(cat(folder, "/", entry.path().filename().string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> support_files(const std::string& room, const std::string& other) {
  std::vector<std::string> files = support_files(room);
  for (std::string& file : support_files(other)) files.push_back(std::move(file));
  return files;
}

std::string including(const std::string& file) { return cat("#include \"", file, "\"\n"); }

bool runs(const std::string& compiler) {
  auto output = common::run_command({compiler, "--version"}, kTimeoutMs);
  return output.ok() && output->status.code == 0 && output->status.signal == 0;
}

TEST(KernelSupport, CHeadersCompileAlone) {
  common::ScratchDirectory scratch = common::ScratchDirectory::create("support").value();
  const std::string source = scratch.path() + "/alone.c";
  int compilers = 0;
  for (const char* compiler : {"gcc", "clang-14", "clang"}) {
    if (!runs(compiler)) continue;
    ++compilers;
    for (const std::string& file : support_files("text", "c")) {
      ASSERT_TRUE(common::write_file_atomic(source, common::as_bytes(including(file))).ok());
      // Nothing calls a header's functions, integers of all types share one macro, and some
      // processors pass vectors in memory.
      std::vector<std::string> command = {compiler,
                                          "-std=gnu11",
                                          "-Wall",
                                          "-Wextra",
                                          "-Werror",
                                          "-Wno-unused-function",
                                          "-Wno-type-limits",
                                          "-Wno-psabi",
                                          "-fsyntax-only",
                                          cat("-I", LFARM_SOURCE_DIR)};
#if defined(__x86_64__)
      command.push_back("-mavx512f");  // inline assembly names its registers
#endif
      command.push_back(source);
      auto output = common::run_command(command, kTimeoutMs);
      ASSERT_TRUE(output.ok()) << output.error().message;
      EXPECT_TRUE(output->status.code == 0 && output->status.signal == 0)
          << compiler << ", " << file << ":\n"
          << output->output;
    }
  }
  EXPECT_GT(compilers, 0) << "neither gcc nor clang is here";
}

TEST(KernelSupport, CudaHeadersCompileAlone) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    if (!(*nvrtc)->supports(architecture)) continue;
    for (const std::string& file : support_files("text", "cuda")) {
      auto output = (*nvrtc)->compile(including(file), architecture,
                                      {cat("--include-path=", LFARM_SOURCE_DIR)});
      EXPECT_TRUE(output.ok()) << architecture << ", " << file << ": " << output.error().message;
    }
  }
}

// What a text of kernels gets is as much support code as it needs.
TEST(KernelSupport, PartsBringWhatTheyNeed) {
  auto nvrtc = common::Nvrtc::open();
  if (!nvrtc.ok()) GTEST_SKIP() << "nothing is compiled: " << nvrtc.error().message;
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    CudaCodeGenerator generator({cat("cuda-", architecture)});
    const std::string all = generator.preamble();
    const std::string least = generator.preamble_for("lf_0123456789abcdef(x);");
    EXPECT_TRUE((*nvrtc)->compile(least, architecture, {}).ok());
    for (const char* name : {"lf_wait_for_earlier", "lf_team", "lf_is_last", "lf_sort_block",
                             "lf_load_stream16", "lf_exp_scaled", "lf_two_bf16", "lf_cp_async16"}) {
      const std::string some = generator.preamble_for(cat("  x = ", name, "(y);\n"));
      auto output = (*nvrtc)->compile(some, architecture, {});
      EXPECT_TRUE(output.ok()) << name << ": " << output.error().message;
      EXPECT_NE(some.find(name), std::string::npos) << name;
      EXPECT_GT(some.size(), least.size()) << name;
      EXPECT_LT(some.size(), all.size()) << name;
    }
    EXPECT_EQ(generator.preamble_for("lf_abs_f32(x)"), least) << "arithmetic is always there";
  }
  CudaCodeGenerator generator({"cuda-sm_90a"});
  EXPECT_NE(generator.preamble_for("lf_wgmma_bf16").find("lf_wgmma_##type"), std::string::npos);
  EXPECT_EQ(generator.preamble_for("lf_cp_async16").find("lf_wgmma_##type"), std::string::npos);
  // What is left out changes no machine code.
  const std::string kernel =
      "extern \"C\" __global__ void k(const float* in, float* out) {\n"
      "  uint4 q = lf_load_stream16(in + 4 * threadIdx.x);\n"
      "  out[threadIdx.x] = lf_team<LfSum, 32, 1>(__uint_as_float(q.x + q.w));\n}\n";
  auto small = (*nvrtc)->compile(generator.preamble_for(kernel) + kernel, "sm_90a", {});
  auto large = (*nvrtc)->compile(generator.preamble() + kernel, "sm_90a", {});
  ASSERT_TRUE(small.ok()) << small.error().message;
  ASSERT_TRUE(large.ok()) << large.error().message;
  EXPECT_EQ(small->cubin, large->cubin);
}

// What depends on comments would make every cached kernel another one when a comment changes.
TEST(KernelSupport, CodeAloneIsPrinted) {
  for (const std::string& text : {CpuCodeGenerator({64, true, true}).preamble(),
                                  CudaCodeGenerator({"cuda-sm_90a"}).preamble()}) {
    for (const char* unwanted : {"//", "#pragma once", "#include \"", "\n\n"}) {
      EXPECT_EQ(text.find(unwanted), std::string::npos) << unwanted;
    }
    EXPECT_TRUE(text.ends_with('\n'));
  }
}

}  // namespace
}  // namespace worker
