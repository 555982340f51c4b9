#include "worker/compile/c_compiler.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/host_compiler.h"
#include "common/process/subprocess.h"
#include "worker/compile/target.h"

namespace worker {

using common::Bytes;
using common::cat;
using common::Code;
using common::CommandOutput;
using common::Error;
using common::Result;
using common::ScratchDirectory;

namespace {

constexpr size_t kMaxObjectBytes = size_t{64} << 20;
constexpr int kProbeTimeoutMs = 10'000;

// LLVM's own options, which it promises to nobody: each is probed.
constexpr const char* kLlvmOptions[] = {
    // Takes conditions out of loops in which they do not change, as clang's -O3 does. Left there,
    // range checks of a padded tensor may become a switch, and no loop with one of these runs in
    // vectors.
    "-enable-nontrivial-unswitch",
    // Extents are constants, and loops that gain from it are unrolled by the generator. Unrolling
    // the others, remainders of vector loops above all, takes a third of the compiler's time.
    "-unroll-runtime=false",
};

bool takes(const std::string& program, const std::vector<std::string>& options) {
  std::vector<std::string> probe = {program};
  probe.insert(probe.end(), options.begin(), options.end());
  probe.insert(probe.end(), {"-fsyntax-only", "-x", "c", "/dev/null"});
  auto output = common::run_command(probe, kProbeTimeoutMs);
  return output.ok() && !output->timed_out && output->status.code == 0 &&
         output->status.signal == 0;
}

// Those that `program` takes: mostly all, which one probe tells.
std::vector<std::string> llvm_options(const std::string& program) {
  std::vector<std::string> all, some;
  for (const char* option : kLlvmOptions) all.insert(all.end(), {"-mllvm", option});
  if (takes(program, all)) return all;
  for (const char* option : kLlvmOptions) {
    if (takes(program, {"-mllvm", option})) some.insert(some.end(), {"-mllvm", option});
  }
  return some;
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// What a program prints first; empty when it does not run.
std::string says(const std::vector<std::string>& command) {
  auto output = common::run_command(command, kProbeTimeoutMs);
  bool runs = output.ok() && !output->timed_out && output->status.code == 0;
  return runs ? first_line(output->output) : std::string();
}

// The version of the compiler's linker, which leaves its mark on objects as the compiler's does.
std::string linker_of(const std::string& program) {
  std::string linker = says({program, "-print-prog-name=ld"});
  return linker.empty() ? std::string() : says({linker, "--version"});
}

// Objects name the versions of the libc's symbols that they use.
std::string libc_version() {
  char text[64];
  size_t size = ::confstr(_CS_GNU_LIBC_VERSION, text, sizeof text);
  return size == 0 || size > sizeof text ? std::string() : std::string(text);
}

// The first line that says "error", with the place it names.
std::string first_complaint(std::string_view output) {
  size_t start = 0;
  while (start < output.size()) {
    size_t end = std::min(output.find('\n', start), output.size());
    std::string_view line = output.substr(start, end - start);
    if (line.find("error") != std::string_view::npos) return std::string(line);
    start = end + 1;
  }
  return first_line(output);
}

class CCompiler final : public Compiler {
 public:
  // `version`: the first line that the program says of itself.
  CCompiler(std::string program, const std::string& version, const common::Target& target,
            std::shared_ptr<const common::Sandbox> sandbox)
      : program_(std::move(program)), version_(version), sandbox_(std::move(sandbox)) {
    // Clang's -O2 vectorises, and takes a third of the time of its -O3.
    bool clang = version.find("clang") != std::string::npos;
    options_ = {"-std=gnu11",
                clang ? "-O2" : "-O3",
                "-fPIC",
                "-shared",
                "-w",
                "-nostartfiles",
                "-fwrapv",
                "-fno-math-errno",
                "-fopenmp-simd",
                "-fno-trapping-math",
                "-ffp-contract=fast",
                "-fno-stack-protector",
                "-fno-asynchronous-unwind-tables"};
    if (clang) {
      for (std::string& option : llvm_options(program_)) options_.push_back(std::move(option));
    } else {
      // GCC follows a clamped argument through a whole function, as a constant, and masks what is
      // computed of the others: gelu takes 1.15 times as long.
      options_.push_back("-fno-thread-jumps");
    }
    for (const std::string& option : machine_options(target)) options_.push_back(option);
    common::Hasher hasher;
    hasher.text(version).text(linker_of(program_)).text(libc_version());
    for (const std::string& option : options_) hasher.text(option);
    identity_ = hasher.finish();
  }

  Result<Bytes> compile(std::string_view source, int timeout_ms) const override;
  const common::Digest& identity() const override { return identity_; }
  std::string description() const override { return version_; }
  void pause() const override { running_.pause(); }
  void resume() const override { running_.resume(); }

 private:
  std::string program_;
  std::string version_;
  std::shared_ptr<const common::Sandbox> sandbox_;  // may be null
  std::vector<std::string> options_;
  common::Digest identity_;
  mutable common::PausableGroups running_;
};

}  // namespace

Result<std::shared_ptr<const Compiler>> find_c_compiler(
    const common::Target& target, std::shared_ptr<const common::Sandbox> sandbox) {
  LFARM_ASSIGN_OR_RETURN(common::HostCompiler found, common::find_host_compiler());
  return std::shared_ptr<const Compiler>(std::make_shared<CCompiler>(
      std::move(found.program), found.version, target, std::move(sandbox)));
}

Result<Bytes> CCompiler::compile(std::string_view source, int timeout_ms) const {
  LFARM_ASSIGN_OR_RETURN(ScratchDirectory directory, ScratchDirectory::create("lfarm-cc"));
  std::string text_path = directory.path() + "/kernels.c";
  std::string object_path = directory.path() + "/kernels.so";
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(text_path, common::as_bytes(source)));
  common::SpawnOptions spawn;
  spawn.in_background = true;
  spawn.pausable = &running_;
  spawn.arguments = {program_};
  spawn.arguments.insert(spawn.arguments.end(), options_.begin(), options_.end());
  spawn.arguments.insert(spawn.arguments.end(), {"-o", object_path, text_path, "-lm"});
  LFARM_ASSIGN_OR_RETURN(
      CommandOutput output,
      common::run_confined(std::move(spawn), sandbox_.get(), directory.path(), timeout_ms));
  if (output.timed_out) {
    return Error{Code::kTimedOut, cat(program_, " took longer than ", timeout_ms,
                                      " ms; compile fewer kernels at once")};
  }
  if (output.status.signal != 0) {
    return common::internal_error(cat(program_, " died of signal ", output.status.signal));
  }
  if (output.status.code != 0) {
    return common::invalid_input(
        cat(program_, " refused the generated code: ", first_complaint(output.output)));
  }
  LFARM_ASSIGN_OR_RETURN(std::string object, common::read_file(object_path, kMaxObjectBytes));
  return common::to_bytes(common::as_bytes(object));
}

}  // namespace worker
