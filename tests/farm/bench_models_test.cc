// `lfarm-bench models` as its users run it, against a Python that is a shell's script: if these
// fail, the comparison with other runtimes does not find lfarm's plans, lets wrong results pass, or
// stops at a peer that is not there.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/farm/cli/cli_testing.h"

namespace cli_testing {
namespace {

using Json = nlohmann::json;

class BenchModels : public CliTest {
 protected:
  // Stands in for a Python: "-c", its script, the backend and the threads are its arguments. Eager
  // gives FAKE_OUTPUT, Inductor dies, and for ONNX Runtime there is a package missing.
  std::string fake_python() {
    write("python.sh", R"(
      case $3 in
        inductor) echo 'no compiler here' >&2; exit 1;;
        onnxruntime) echo '{"missing":"No module named onnx"}'; exit 0;;
      esac
      echo "{\"ready\":1,\"torch\":\"9\",\"capability\":\"AVX512\",\"blas\":{\"name\":\"$FAKE_BLAS\",\"path\":\"/b\"}}"
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

  // The rows and summaries that a run prints.
  std::vector<Json> run(std::vector<std::string> more, const std::string& output,
                        const std::string& blas, int code) {
    ::setenv("FAKE_OUTPUT", output.c_str(), 1);
    ::setenv("FAKE_BLAS", blas.c_str(), 1);
    std::vector<std::string> arguments = {"models", fixture("mlp"), "--peers", "--rounds",
                                          "2",      "--state",      state(),   "--budget",
                                          "1",      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Invocation bench(path(""), runs_++, arguments, paths::binaries("/lfarm-bench"));
    EXPECT_EQ(bench.wait(), code) << bench.err();
    std::vector<Json> lines;
    std::istringstream text(bench.out());
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    EXPECT_GE(lines.size(), 3u) << bench.err();
    lines.resize(std::max<size_t>(lines.size(), 3));
    return lines;
  }

 private:
  int runs_ = 0;
};

TEST_F(BenchModels, MeasuresComparesAndRefuses) {
  std::string python = fake_python();
  std::string right = fixture("mlp") + "/outputs/0.npy";
  auto lines = run({"--python", python, "--threads", "1,2", "--markdown", path("report.md")}, right,
                   "OpenBLAS", 0);
  ASSERT_EQ(lines.size(), 4u);  // two rows, a summary, the setup
  for (int k = 0; k < 2; ++k) {
    const Json& row = lines[static_cast<size_t>(k)];
    EXPECT_EQ(row["model"], "mlp");
    EXPECT_EQ(row["threads"], k + 1);
    EXPECT_GT(row["lfarm_ms"].get<double>(), 0);
    EXPECT_GE(row["eager_ms"].get<double>(), 1.0);
    EXPECT_EQ(row["best_peer"], "eager");
    EXPECT_DOUBLE_EQ(row["ratio_to_best"].get<double>(),
                     row["eager_ms"].get<double>() / row["lfarm_ms"].get<double>());
    EXPECT_GT(row["lfarm_roofline"].get<double>(), 0);
    EXPECT_EQ(row["notes"]["inductor"], "inductor: ended with code 1: no compiler here");
    EXPECT_EQ(row["notes"]["onnxruntime"], "onnxruntime: No module named onnx");
    EXPECT_FALSE(row.contains("problem")) << row;
  }
  EXPECT_EQ(lines[2]["summary"], "f32");
  EXPECT_EQ(lines[2]["rows"], 2);
  EXPECT_NE(lines[3]["setup"].dump().find("BLAS OpenBLAS (/b)"), std::string::npos);
  EXPECT_NE(common::read_file(path("report.md")).value().find("| mlp | f32 | 2 |"),
            std::string::npos);

  // The reference BLAS: a time, and no ratio. The plan is the one that was found before.
  lines = run({"--python", python, "--threads", "1", "--peer", "eager"}, right, "reference", 0);
  EXPECT_GE(lines[0]["eager_ms"].get<double>(), 1.0);
  EXPECT_TRUE(lines[0]["ratio_to_best"].is_null());
  EXPECT_NE(lines[0]["notes"]["eager"].get<std::string>().find("reference BLAS"),
            std::string::npos);

  // What the model was given is not what it should return: lfarm differs from such an eager.
  std::string bytes = common::read_file(right).value();
  bytes[bytes.size() - 1] = '\x41';  // the last element is about 8 now
  write("wrong.npy", bytes);
  lines = run({"--python", python, "--threads", "1"}, path("wrong.npy"), "OpenBLAS", 1);
  EXPECT_TRUE(lines[0]["ratio_to_best"].is_null());
  EXPECT_NE(lines[0]["problem"].get<std::string>().find("not PyTorch's: output 0"),
            std::string::npos);
  EXPECT_EQ(lines[1]["failed"], 1);
}

TEST_F(BenchModels, WithTheRealPeers) {
  const char* python = std::getenv("LFARM_PEER_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "LFARM_PEER_PYTHON names no Python that has torch";
  }
  auto lines = run({"--python", python, "--threads", "1", "--peer", "eager"}, "", "", 0);
  EXPECT_GT(lines[0]["eager_ms"].get<double>(), 0);
  EXPECT_FALSE(lines[0].contains("problem")) << lines[0];
}

}  // namespace
}  // namespace cli_testing
