// The compiler of the CUDA target: real NVRTC in a child process where it is installed, and child
// processes that misbehave. This binary is its own child, in every variant.
#include "worker/compile/nvrtc_compiler.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/cuda/nvrtc.h"
#include "common/process/pipe.h"
#include "common/process/subprocess.h"
#include "worker/compile/child_pool.h"
#include "worker/compile/nvrtc_child.h"

namespace worker {
namespace {

using common::Bytes;
using common::cat;
using common::Code;

// Its instantiations double with each level: years of work for any compiler.
constexpr const char* kEndless = R"(
template <int N, int K> struct Tree {
  static constexpr long long value = Tree<N - 1, 2 * K>::value + Tree<N - 1, 2 * K + 1>::value;
};
template <int K> struct Tree<0, K> { static constexpr long long value = K; };
extern "C" __global__ void k(long long* out) { *out = Tree<28, 1>::value; }
)";

constexpr const char* kScriptedFlag = "--scripted-child";
constexpr const char* kSelf = "/proc/self/exe";
constexpr int kEnoughMs = 60'000;

// A child that does what each request says: "hang", "crash", "killed", "pid", or to open one of a
// pipe's ends, which waits for the other. Anything else comes back.
int run_scripted_child(int fd) {
  while (true) {
    auto frame = common::read_frame(fd);
    if (!frame.ok()) return 0;
    std::string_view request = common::as_text(*frame);
    if (request == "hang") {
      while (true) ::pause();
    }
    if (request == "crash") ::abort();
    if (request == "killed") ::raise(SIGKILL);
    for (auto [end, flags] : {std::pair{"read ", O_RDONLY}, std::pair{"write ", O_WRONLY}}) {
      if (!request.starts_with(end)) continue;
      ::close(::open(std::string(request.substr(std::strlen(end))).c_str(), flags));
    }
    std::string answer = request == "pid" ? cat(::getpid()) : std::string(request);
    if (!common::write_frame(fd, common::as_bytes(answer)).ok()) return 0;
  }
}

struct ScriptedPool {
  explicit ScriptedPool(size_t children_max) : pool({kSelf, kScriptedFlag}, children_max) {}
  common::Result<std::string> ask(std::string_view request, int timeout_ms = kEnoughMs) {
    auto answer = pool.exchange(common::as_bytes(request), timeout_ms);
    if (!answer.ok()) return answer.error();
    return std::string(common::as_text(*answer));
  }
  ChildPool pool;
};

TEST(ChildPool, OneChildServesManyRequests) {
  ScriptedPool pool(2);
  auto first = pool.ask("pid");
  ASSERT_TRUE(first.ok()) << first.error().message;
  for (int k = 0; k < 20; ++k) {
    auto again = pool.ask("pid");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *first);
  }
}

TEST(ChildPool, AHangingChildIsKilledAndReplaced) {
  ScriptedPool pool(1);
  auto pid = pool.ask("pid");
  ASSERT_TRUE(pid.ok());
  auto hung = pool.ask("hang", 50);
  ASSERT_FALSE(hung.ok());
  EXPECT_EQ(hung.error().code, Code::kTimedOut);
  EXPECT_EQ(::kill(std::stoi(*pid), 0), -1) << "the child that hung still runs";
  auto after = pool.ask("pid");
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_NE(*after, *pid);
}

TEST(ChildPool, ARequestThatKillsTwoChildrenIsRefused) {
  ScriptedPool pool(1);
  auto crashed = pool.ask("crash");
  ASSERT_FALSE(crashed.ok());
  EXPECT_EQ(crashed.error().code, Code::kInvalidInput);
  EXPECT_NE(crashed.error().message.find("died of"), std::string::npos) << crashed.error().message;
  auto after = pool.ask("echo");
  ASSERT_TRUE(after.ok()) << after.error().message;
}

TEST(ChildPool, BeingKilledFromOutsideIsNotTheRequestsFault) {
  ScriptedPool pool(1);
  auto killed = pool.ask("killed");
  ASSERT_FALSE(killed.ok());
  EXPECT_EQ(killed.error().code, Code::kInternal);
  // One that dies between requests costs nothing.
  auto pid = pool.ask("pid");
  ASSERT_TRUE(pid.ok());
  ASSERT_EQ(::kill(std::stoi(*pid), SIGKILL), 0);
  auto after = pool.ask("pid");
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_NE(*after, *pid);
}

TEST(ChildPool, ManyThreadsShareFewChildren) {
  ScriptedPool pool(2);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 25; ++k) {
        std::string request = cat("request ", t, " ", k);
        auto answer = pool.ask(request);
        right += answer.ok() && *answer == request;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 6 * 25);
}

// However often children came and went, as many as are allowed work at once.
TEST(ChildPool, ChildrenStayAsManyAsTheyMayBe) {
  ScriptedPool pool(2);
  for (const char* request : {"echo", "killed", "echo", "crash", "echo"}) (void)pool.ask(request);
  auto scratch = common::ScratchDirectory::create("lfarm-pool");
  ASSERT_TRUE(scratch.ok());
  std::string pipe = scratch->path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread reader([&] {
    auto answer = pool.ask("read " + pipe);
    EXPECT_TRUE(answer.ok()) << answer.error().message;
  });
  auto answer = pool.ask("write " + pipe);
  EXPECT_TRUE(answer.ok()) << "neither child met the other: " << answer.error().message;
  reader.join();
}

TEST(ChildPool, AProgramThatIsMissingIsNamed) {
  ChildPool pool({"/no/such/program"}, 1);
  auto answer = pool.exchange(common::as_bytes("echo"), kEnoughMs);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("/no/such/program"), std::string::npos);
}

TEST(NvrtcFrames, DamageIsFound) {
  NvrtcRequest request;
  request.arch = "sm_90a";
  request.options = {"--one", "--two"};
  request.source = "text";
  request.timeout_s = 3;
  Bytes bytes = encode(request);
  auto back = decode_nvrtc_request(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->options, request.options);
  EXPECT_EQ(back->source, request.source);
  EXPECT_EQ(back->timeout_s, 3U);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_nvrtc_request(common::ByteView(bytes).first(size)).ok());
  }
  EXPECT_FALSE(decode_nvrtc_reply(Bytes(bytes.size(), std::byte{0xff})).ok());
  NvrtcReply reply;
  reply.error.code = Code::kInternal;
  EXPECT_TRUE(decode_nvrtc_reply(encode(reply)).ok());
  reply.error.code = static_cast<Code>(static_cast<int>(Code::kInternal) + 1);
  EXPECT_FALSE(decode_nvrtc_reply(encode(reply)).ok());
}

// A child that says it is the library `build`, knows the options that contain a letter of `known`,
// and compiles a text into what it was asked with.
constexpr const char* kPretendingFlag = "--pretending-child";
int run_pretending_child(int fd, const std::string& build, const std::string& known) {
  while (true) {
    auto frame = common::read_frame(fd);
    if (!frame.ok()) return 0;
    NvrtcRequest request = decode_nvrtc_request(*frame).value();
    NvrtcReply reply;
    reply.ok = true;
    reply.build = build;
    std::string asked = request.arch;
    for (const std::string& option : request.options) {
      if (option.find_first_of(known) != std::string::npos) reply.options.push_back(option);
      asked += " " + option;
    }
    if (!request.describe) reply.cubin = common::to_bytes(common::as_bytes(asked));
    if (!common::write_frame(fd, encode(reply)).ok()) return 0;
  }
}

std::shared_ptr<const Compiler> pretended(const char* build, const char* known,
                                          const char* target = "cuda-sm_90a") {
  return find_nvrtc_compiler({target}, {kSelf, kPretendingFlag, build, known}, 1).value();
}

TEST(NvrtcCompilerIdentity, EverythingThatMayChangeTheCodeIsPartOfIt) {
  std::set<common::Digest> identities;
  for (const auto& compiler :
       {pretended("13.0", "m"), pretended("13.1", "m"), pretended("13.0", "!"),
        pretended("13.0", "m", "cuda-sm_80"), pretended("13.0", "m")}) {
    identities.insert(compiler->identity());
  }
  EXPECT_EQ(identities.size(), 4u);
}

TEST(NvrtcCompilerIdentity, OptionsThatTheLibraryKnowsAreUsed) {
  for (const char* known : {"m", "!"}) {
    auto compiled = pretended("13.0", known)->compile("", kEnoughMs);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    std::string asked(common::as_text(*compiled));
    EXPECT_TRUE(asked.starts_with("sm_90a ")) << asked;
    EXPECT_NE(asked.find("--ftz=false"), std::string::npos) << asked;
    EXPECT_EQ(asked.find("--minimal") != std::string::npos, known[0] == 'm') << asked;
  }
}

constexpr const char* kKernel = R"(
extern "C" __global__ void __launch_bounds__(128) lf_double(const float* in, float* out, long long n) {
  long long i = blockIdx.x * 128LL + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}
)";

class NvrtcCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto nvrtc = common::Nvrtc::open();
    if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.error().message;
    nvrtc_ = *nvrtc;
  }
  static auto find(const char* target) {
    return find_nvrtc_compiler({target}, {kSelf, kNvrtcChildFlag}, 2,
                               common::Sandbox::find(common::SandboxProfile::kCompiling));
  }
  std::shared_ptr<const common::Nvrtc> nvrtc_;
};

TEST_F(NvrtcCompilerTest, CompilesForTheTargetsThatTheLibraryKnows) {
  std::set<common::Digest> identities;
  size_t found = 0;
  for (const char* target : {"cuda-sm_80", "cuda-sm_89", "cuda-sm_90a", "cuda-sm_100"}) {
    if (!nvrtc_->supports(target + std::strlen("cuda-"))) continue;
    auto compiler = find(target);
    ASSERT_TRUE(compiler.ok()) << compiler.error().message;
    auto cubin = (*compiler)->compile(kKernel, kEnoughMs);
    ASSERT_TRUE(cubin.ok()) << cubin.error().message;
    EXPECT_FALSE(cubin->empty());
    identities.insert((*compiler)->identity());
    ++found;
  }
  EXPECT_GT(found, 0U);
  EXPECT_EQ(identities.size(), found) << "objects of different targets would share cache keys";
}

TEST_F(NvrtcCompilerTest, EqualTextsGiveEqualObjectsAndIdentities) {
  auto first = find("cuda-sm_90a"), second = find("cuda-sm_90a");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->identity(), (*second)->identity());
  auto a = (*first)->compile(kKernel, kEnoughMs), b = (*second)->compile(kKernel, kEnoughMs);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
}

TEST_F(NvrtcCompilerTest, ABrokenTextIsOneLineAndTheNextOneCompiles) {
  auto compiler = find("cuda-sm_90a");
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  auto broken = (*compiler)->compile("extern \"C\" __global__ void k() { nonsense; }\n", kEnoughMs);
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, Code::kInvalidInput);
  EXPECT_NE(broken.error().message.find("nonsense"), std::string::npos) << broken.error().message;
  EXPECT_EQ(broken.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE((*compiler)->compile(kKernel, kEnoughMs).ok());
}

TEST_F(NvrtcCompilerTest, ACompilationWithoutEndIsCutOff) {
  auto compiler = find("cuda-sm_90a");
  ASSERT_TRUE(compiler.ok()) << compiler.error().message;
  auto endless = (*compiler)->compile(kEndless, 300);
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.error().code, Code::kTimedOut) << endless.error().message;
  auto next = (*compiler)->compile(kKernel, kEnoughMs);
  EXPECT_TRUE(next.ok()) << next.error().message;
}

// Its parent may be gone, or stuck.
TEST_F(NvrtcCompilerTest, AChildEndsItselfAfterItsTime) {
  auto pipe = common::make_pipe();
  ASSERT_TRUE(pipe.ok());
  common::SpawnOptions options;
  options.arguments = {kSelf, kNvrtcChildFlag};
  options.stdin_fd = pipe->child;
  auto child = common::Subprocess::start(options);
  ASSERT_TRUE(child.ok()) << child.error().message;
  ::close(pipe->child);
  NvrtcRequest request;
  request.arch = "sm_90a";
  request.source = kEndless;
  request.timeout_s = 1;
  ASSERT_TRUE(common::write_frame(pipe->parent, encode(request)).ok());
  auto status = child->wait(kEnoughMs);
  ::close(pipe->parent);
  ASSERT_TRUE(status.has_value()) << "it still runs";
  EXPECT_EQ(status->signal, SIGALRM);
}

TEST_F(NvrtcCompilerTest, AnArchitectureOfTheFutureIsNamed) {
  auto compiler = find("cuda-sm_999");
  ASSERT_FALSE(compiler.ok());
  EXPECT_EQ(compiler.error().code, Code::kUnavailable);
  EXPECT_NE(compiler.error().message.find("sm_999"), std::string::npos);
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], worker::kNvrtcChildFlag) == 0) {
    return worker::run_nvrtc_child(STDIN_FILENO);
  }
  if (argc > 3 && std::strcmp(argv[1], worker::kPretendingFlag) == 0) {
    return worker::run_pretending_child(STDIN_FILENO, argv[2], argv[3]);
  }
  if (argc > 1 && std::strcmp(argv[1], worker::kScriptedFlag) == 0) {
    return worker::run_scripted_child(STDIN_FILENO);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
