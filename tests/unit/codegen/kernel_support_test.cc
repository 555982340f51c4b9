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
