#include "worker/compile/nvrtc_compiler.h"

#include <string_view>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "worker/compile/child_pool.h"
#include "worker/compile/nvrtc_child.h"

namespace worker {
using common::Bytes;
using common::cat;
using common::Code;
using common::Error;
using common::Result;

namespace {

// Loading the library from a cold disk is most of it.
constexpr int kDescribeMs = 60'000;
// How much longer than its parent a child waits before it ends itself.
constexpr uint64_t kAlarmSlackS = 2;

// What every library knows. As on the CPU a multiplication and an addition may become one rounding
// (fmad), and nothing else is relaxed: subnormals stay, division and square root are the nearest.
std::vector<std::string> common_options() {
  return {"--std=c++17",     "--fmad=true",      "--ftz=false",
          "--prec-div=true", "--prec-sqrt=true", "--disable-warnings"};
}

// What newer libraries know: texture and runtime functions that no kernel uses are left out.
std::vector<std::string> newer_options() { return {"--minimal"}; }

class NvrtcCompiler final : public Compiler {
 public:
  NvrtcCompiler(std::string arch, std::unique_ptr<ChildPool> pool, const NvrtcReply& description)
      : arch_(std::move(arch)),
        build_(description.build),
        pool_(std::move(pool)),
        options_(common_options()) {
    options_.insert(options_.end(), description.options.begin(), description.options.end());
    common::Hasher hasher;
    hasher.text("nvrtc").text(description.build).text(arch_);
    for (const std::string& option : options_) hasher.text(option);
    identity_ = hasher.finish();
  }

  Result<Bytes> compile(std::string_view source, int timeout_ms) const override;
  int concurrency() const override { return static_cast<int>(pool_->children_max()); }
  const common::Digest& identity() const override { return identity_; }
  std::string description() const override { return cat("NVRTC ", build_); }

 private:
  std::string arch_;
  std::string build_;
  std::unique_ptr<ChildPool> pool_;  // thread-safe
  std::vector<std::string> options_;
  common::Digest identity_;
};

}  // namespace

Result<std::shared_ptr<const Compiler>> find_nvrtc_compiler(
    const common::Target& target, std::vector<std::string> child_command, size_t children_max,
    std::shared_ptr<const common::Sandbox> sandbox) {
  constexpr std::string_view kPrefix = "cuda-";
  if (!target.name.starts_with(kPrefix)) {
    return common::invalid_input(cat("NVRTC does not compile for ", target.name));
  }
  auto pool =
      std::make_unique<ChildPool>(std::move(child_command), children_max, std::move(sandbox));
  NvrtcRequest question;
  question.describe = true;
  question.arch = target.name.substr(kPrefix.size());
  question.options = newer_options();
  auto frame = pool->exchange(encode(question), kDescribeMs);
  if (!frame.ok()) {
    return common::unavailable(cat("NVRTC does not start: ", frame.error().message));
  }
  LFARM_ASSIGN_OR_RETURN(NvrtcReply description, decode_nvrtc_reply(*frame));
  if (!description.ok) return description.error;
  if (!description.note.empty()) common::log_warning(description.note);
  return std::shared_ptr<const Compiler>(
      std::make_shared<NvrtcCompiler>(std::move(question.arch), std::move(pool), description));
}

Result<Bytes> NvrtcCompiler::compile(std::string_view source, int timeout_ms) const {
  NvrtcRequest request;
  request.arch = arch_;
  request.options = options_;
  request.source = source;
  request.timeout_s = static_cast<uint64_t>(timeout_ms) / 1000 + kAlarmSlackS;
  auto frame = pool_->exchange(encode(request), timeout_ms);
  if (!frame.ok()) {
    Error error = frame.error();
    error.message =
        error.code == Code::kTimedOut
            ? cat("NVRTC took longer than ", timeout_ms, " ms; compile fewer kernels at once")
            : cat("NVRTC failed on the generated code: ", error.message);
    return error;
  }
  LFARM_ASSIGN_OR_RETURN(NvrtcReply reply, decode_nvrtc_reply(*frame));
  if (!reply.ok) return reply.error;
  return std::move(reply.cubin);
}

}  // namespace worker
