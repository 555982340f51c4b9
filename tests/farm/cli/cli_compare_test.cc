// `lfarm compare` against a Python that is a shell's script: if these fail, users without PyTorch
// wait for a search before they hear of it, or wrong outputs are told as a ratio.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/farm/cli/cli_testing.h"

namespace cli_testing {
namespace {

using Json = nlohmann::json;

class CliCompare : public CliTest {
 protected:
  // Stands in for a Python: "-c", its script, the backend and the threads are its arguments. Eager
  // gives the file `output`, and Inductor dies.
  std::string fake_python(const std::string& output) {
    ::setenv("FAKE_OUTPUT", output.c_str(), 1);
    write("python.sh", R"(
      if [ "$3" = inductor ]; then echo 'no compiler here' >&2; exit 1; fi
      echo '{"ready":1,"torch":"9","capability":"AVX512","blas":{"name":"OpenBLAS","path":"/b"}}'
      while read -r what a b; do case $what in
        input) head -c "$b" > /dev/null;;
        model) head -c "$a" > /dev/null
          echo "{\"outputs\":[{\"dtype\":\"float32\",\"bytes\":$(wc -c < "$FAKE_OUTPUT")}]}"
          cat "$FAKE_OUTPUT";;
        rates) echo '{"gemm_gflops":100,"bf16_gemm_gflops":100}';;
        run) echo "{\"us\":[$(seq -s, 1000 $((1000 + a - 1)))]}";;
      esac; done)");
    return "sh " + path("python.sh");
  }
  Invocation compare(const std::string& model, const std::string& python,
                     std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"compare", model,       "--python", python,     "--rounds",
                                      "2",       "--threads", "1",        "--budget", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return lfarm(words);
  }
};

TEST_F(CliCompare, MeasuresSidesAndComparesOutputs) {
  std::string right = fixture("mlp") + "/outputs/0.npy";
  Invocation run = compare(fixture("mlp"), fake_python(right), {"--json"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  Json json = Json::parse(run.out());
  ASSERT_EQ(json["sides"].size(), 3u) << json;
  const Json& own = json["sides"][0];
  const Json& eager = json["sides"][1];
  EXPECT_EQ(own["outputs"], "same");
  EXPECT_GT(own["ms"].get<double>(), 0);
  EXPECT_GT(own["roofline"].get<double>(), 0);
  EXPECT_EQ(eager["outputs"], "reference");
  EXPECT_DOUBLE_EQ(eager["ratio"].get<double>(),
                   eager["ms"].get<double>() / own["ms"].get<double>());
  EXPECT_EQ(json["sides"][2]["note"], "inductor: ended with code 1: no compiler here");
  EXPECT_EQ(json["best_peer"], "eager");

  // The plan is there now.
  std::string bytes = common::read_file(right).value();
  bytes[bytes.size() - 1] = '\x41';  // the last element is about 8 now
  write("wrong.npy", bytes);
  Invocation wrong = compare(fixture("mlp"), fake_python(path("wrong.npy")));
  EXPECT_EQ(wrong.wait(), 5);
  EXPECT_NE(wrong.out().find("not PyTorch's: output 0"), std::string::npos) << wrong.out();
  EXPECT_EQ(wrong.out().find("times as fast"), std::string::npos) << wrong.out();
}

TEST_F(CliCompare, WithoutPyTorchOneLineSaysSo) {
  write("none.sh", R"(echo '{"missing":"No module named torch"}')");
  std::string none = "sh " + path("none.sh");
  Invocation run = compare(model("mlp"), none);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_EQ(run.out(), "");
  EXPECT_EQ(run.err(), "lfarm: '" + none +
                           "' cannot run PyTorch (eager: No module named torch); --python 'CMD' "
                           "names a Python that has torch\n");
  // Nothing was searched for.
  EXPECT_FALSE(common::file_exists(state() + "/CURRENT"));
  Invocation away = compare(model("mlp"), "no-such-program-for-lfarm");
  EXPECT_EQ(away.wait(), 2);
  EXPECT_NE(away.err().find("no-such-program-for-lfarm"), std::string::npos) << away.err();
  Invocation gpu = compare(model("mlp"), none, {"--device", "cuda"});
  EXPECT_EQ(gpu.wait(), 2);
}

TEST_F(CliCompare, WithTheRealPeers) {
  const char* python = std::getenv("LFARM_PEER_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "LFARM_PEER_PYTHON names no Python that has torch";
  }
  Invocation run = compare(fixture("mlp"), python, {"--json"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  Json json = Json::parse(run.out());
  EXPECT_EQ(json["sides"][0]["outputs"], "same") << json;
  EXPECT_GT(json["sides"][1]["ms"].get<double>(), 0);
}

}  // namespace
}  // namespace cli_testing
