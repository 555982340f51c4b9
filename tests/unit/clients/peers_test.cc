// Peers, other runtimes that are measured beside lfarm: if these fail, a peer that dies, hangs or
// talks nonsense takes the other sides with it.
#include <gtest/gtest.h>

#include <fstream>

#include "clients/peers/export_process.h"
#include "clients/peers/peer_process.h"
#include "clients/peers/script.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using common::Code;

// ---- The protocol, against a shell's script ----------------------------------------------------

constexpr const char* kReady =
    R"(echo '{"ready":1,"torch":"9.9","capability":"AVX2","blas":{"name":"OpenBLAS","path":"/x"}}')"
    "\n";

PeerOptions shell_peer(const std::string& script) {
  PeerOptions options{{"sh"}, script, "eager", 3, {}};
  options.deadlines = {60'000, 60'000, 60'000};
  return options;
}

// Starts and loads a model of five bytes with one input; what went wrong, if anything did.
common::Result<PeerModel> load_with(const PeerOptions& options) {
  LFARM_ASSIGN_OR_RETURN(PeerProcess peer, PeerProcess::start(options));
  return peer.load(common::as_bytes(std::string("model")),
                   {{"float32", common::to_bytes(common::as_bytes(std::string("abc")))}});
}

TEST(PeerProcess, LoadsRunsAndSaysWhatItIs) {
  // $0 is the backend, $1 the threads; bytes are counted, so that a lost one shows.
  auto peer = PeerProcess::start(shell_peer(cat(kReady, R"(
    while read -r what a b; do case $what in
      input) n=$(head -c "$b" | wc -c);;
      model) m=$(head -c "$a" | wc -c)
        echo "{\"settings\":\"$0 $1 $n $m\",\"outputs\":[{\"dtype\":\"bfloat16\",\"bytes\":4}]}"
        printf 'wxyz';;
      run) echo "{\"us\":[$(seq -s, 1 "$a")]}";;
      rates) echo '{"gemm_gflops":200,"bf16_gemm_gflops":900}';;
    esac; done)")));
  ASSERT_TRUE(peer.ok()) << peer.error().message;
  EXPECT_EQ(peer->facts().torch, "9.9");
  EXPECT_EQ(peer->facts().blas, "OpenBLAS");
  EXPECT_EQ(peer->facts().capability, "AVX2");
  std::string archive(300'000, 'm');  // more than a pipe holds
  auto model = peer->load(common::as_bytes(archive),
                          {{"float32", common::to_bytes(common::as_bytes(std::string("abc")))}});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->settings, "eager 3 3 300000");
  ASSERT_EQ(model->outputs.size(), 1u);
  EXPECT_EQ(model->outputs[0].dtype, "bfloat16");
  EXPECT_EQ(model->outputs[0].npy, common::to_bytes(common::as_bytes(std::string("wxyz"))));
  EXPECT_EQ(peer->run(4).value(), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(peer->rates()->bf16_gemm_gflops, 900);
  EXPECT_EQ(peer->run(1).value(), std::vector<double>{1});
}

TEST(PeerProcess, APackageThatIsMissingIsNamed) {
  auto peer = PeerProcess::start(shell_peer(R"(echo '{"missing":"No module named torch"}')"));
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().code, Code::kUnsupported);
  EXPECT_EQ(peer.error().message, "eager: No module named torch");
}

TEST(PeerProcess, ItsLastWordsComeAlongWhenItDies) {
  auto peer = PeerProcess::start(shell_peer("echo first >&2; echo 'no such thing' >&2; exit 3"));
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().code, Code::kUnavailable);
  EXPECT_EQ(peer.error().message, "eager: ended with code 3: no such thing");
  auto killed = load_with(shell_peer(cat(kReady, "read -r line; kill -9 $$")));
  ASSERT_FALSE(killed.ok());
  EXPECT_EQ(killed.error().message, "eager: was ended by signal 9");
  PeerOptions missing = shell_peer("");
  missing.python = {"no-such-program-for-lfarm"};
  EXPECT_EQ(PeerProcess::start(missing).error().code, Code::kInvalidInput);
}

TEST(PeerProcess, AnErrorIsItsAnswer) {
  auto model = load_with(shell_peer(
      cat(kReady, R"(head -c 26 > /dev/null; printf '{"error":"no\\nConv"}\n'; cat > /dev/null)")));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, Code::kUnsupported);
  EXPECT_EQ(model.error().message, "eager: no Conv");
}

TEST(PeerProcess, NonsenseIsQuoted) {
  auto peer = PeerProcess::start(shell_peer("printf 'hel\\tlo\\n'; cat > /dev/null"));
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().code, Code::kUnavailable);
  EXPECT_EQ(peer.error().message, "eager: its answer is none: 'hel lo'");
  EXPECT_FALSE(PeerProcess::start(shell_peer("tr -d '\\n' < /dev/zero")).ok());
  for (const char* answer :
       {R"({"outputs":3})", R"({"outputs":[{"bytes":-1}]})", R"({"outputs":[{"bytes":1e99}]})",
        R"({"outputs":[7]})", "[]", "{", R"({"us":[1]})"}) {
    auto model =
        load_with(shell_peer(cat(kReady, "head -c 26 > /dev/null; echo '", answer, "'; cat")));
    ASSERT_FALSE(model.ok()) << answer;
    EXPECT_EQ(model.error().message, cat("eager: its answer is none: '", answer, "'"));
  }
  for (const char* times : {"[1]", "[1,0]", "[1,-2]", "[1,\"x\"]", "[1,2,3]", "{}"}) {
    auto runner = PeerProcess::start(
        shell_peer(cat(kReady, "read -r line; echo '{\"us\":", times, "}'; cat > /dev/null")));
    ASSERT_TRUE(runner.ok());
    EXPECT_FALSE(runner->run(2).ok()) << times;
  }
}

TEST(PeerProcess, SilenceEndsAtItsDeadline) {
  PeerOptions silent = shell_peer("cat > /dev/null");
  silent.deadlines.start_ms = 50;
  auto started = PeerProcess::start(silent);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, Code::kTimedOut);
  EXPECT_EQ(started.error().message, "eager: no answer within 0.05 s");
  // Neither does one that never reads hold up what is sent to it.
  PeerOptions deaf = shell_peer(cat(kReady, "exec sleep 1000"));
  deaf.deadlines.load_ms = 50;
  auto peer = PeerProcess::start(deaf);
  ASSERT_TRUE(peer.ok()) << peer.error().message;
  std::string archive(8'000'000, 'm');
  EXPECT_EQ(peer->load(common::as_bytes(archive), {}).error().code, Code::kTimedOut);
}

// ---- The real script ---------------------------------------------------------------------------

TEST(PeerScript, SaysWhichPackageIsMissing) {
  auto scratch = common::ScratchDirectory::create("lfarm-peer").value();
  std::ofstream(scratch.path() + "/numpy.py") << "raise ImportError('numpy is away')\n";
  PeerOptions options{
      {"env", cat("PYTHONPATH=", scratch.path()), "python3"}, kPeerScript, "eager", 1, {}};
  auto peer = PeerProcess::start(options);
  ASSERT_FALSE(peer.ok());
  EXPECT_EQ(peer.error().code, Code::kUnsupported);
  EXPECT_EQ(peer.error().message, "eager: numpy is away");
}

// ---- Exports ------------------------------------------------------------------------------------

TEST(ExportScript, SaysWhichPackageIsMissing) {
  auto scratch = common::ScratchDirectory::create("lfarm-export").value();
  std::ofstream(scratch.path() + "/torch.py")
      << "raise ImportError('torch is away', name='torch')\n";
  ExportRequest request{{"env", cat("PYTHONPATH=", scratch.path()), "python3"},
                        kExportScript,
                        "module",
                        "zoo:Mlp",
                        "",
                        {}};
  auto exported = export_program(request, scratch.path() + "/model.pt2");
  ASSERT_FALSE(exported.ok());
  EXPECT_EQ(exported.error().code, Code::kInvalidInput);
  EXPECT_NE(exported.error().message.find("cannot export models (torch is away)"),
            std::string::npos)
      << exported.error().message;
}

TEST(ExportProcess, NonsenseIsQuoted) {
  auto scratch = common::ScratchDirectory::create("lfarm-export").value();
  for (const char* answer : {"{}", "[]", "7", "{", R"({"bytes":-1})", R"({"bytes":"1"})",
                             R"({"name":"x"})", R"({"bytes":1e300})"}) {
    ExportRequest request{
        {"sh"},   cat(R"(echo '{"ready":1}'; read -r line; echo ')", answer, "'; cat > /dev/null"),
        "module", "zoo:Mlp",
        "",       {}};
    auto exported = export_program(request, scratch.path() + "/model.pt2");
    ASSERT_FALSE(exported.ok()) << answer;
    EXPECT_EQ(exported.error().message, cat("zoo:Mlp: its answer is none: '", answer, "'"));
  }
}

}  // namespace
}  // namespace clients
