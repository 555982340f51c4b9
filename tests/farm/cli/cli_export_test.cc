// `lfarm submit` of ONNX files and of callables, against a Python that is a shell's script: if
// these fail, users who have no .pt2 file do not learn what they lack, or get another model's plan.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/farm/cli/cli_testing.h"

namespace cli_testing {
namespace {

using Json = nlohmann::json;

class CliExport : public CliTest {
 protected:
  // Stands in for a Python: "-c", its script, the kind and the name are its arguments. It keeps
  // what it is given and answers with the fixture mlp.
  std::string fake_python() {
    ::setenv("FAKE_MODEL", model("mlp").c_str(), 1);
    ::setenv("FAKE_SEEN", path("seen").c_str(), 1);
    write("python.sh", R"sh(
echo "$3 $4" > "$FAKE_SEEN"
echo '{"ready":1,"torch":"9"}'
while read -r what n; do case $what in
  args) head -c "$n" >> "$FAKE_SEEN";;
  onnx) echo "onnx $(head -c "$n" | wc -c)" >> "$FAKE_SEEN";;
  export) echo "{\"name\":\"Mlp\",\"bytes\":$(wc -c < "$FAKE_MODEL")}"; cat "$FAKE_MODEL";;
esac; done
)sh");
    return "sh " + path("python.sh");
  }
  std::string seen() const { return common::read_file(path("seen")).value(); }
  Invocation submit(const std::string& what, const std::string& python,
                    std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"submit", what, "--python", python, "--budget", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return lfarm(words);
  }
};

TEST_F(CliExport, CallablesAndOnnxFilesAreExportedFirst) {
  Invocation callable =
      submit("zoo.mlp:Mlp", fake_python(),
             {"--args", "torch.randn(3, 16)", "--save", path("kept.pt2"), "--json"});
  ASSERT_EQ(callable.wait(), 0) << callable.err();
  EXPECT_EQ(seen(), "module zoo.mlp:Mlp\ntorch.randn(3, 16)");
  EXPECT_EQ(common::read_file(path("kept.pt2")).value(), common::read_file(model("mlp")).value());
  EXPECT_GE(Json::parse(callable.out())["breakdown"]["export"].get<double>(), 0);

  // The same graph: its plan is there.
  write("net.onnx", "12345");
  Invocation onnx = submit(path("net.onnx"), fake_python(), {"--json"});
  ASSERT_EQ(onnx.wait(), 0) << onnx.err();
  EXPECT_EQ(seen(), "onnx " + path("net.onnx") + "\nonnx 5\n");
  EXPECT_EQ(Json::parse(onnx.out())["cache"], "hit");
  EXPECT_EQ(field(onnx.out(), "plan"), field(callable.out(), "plan"));
}

TEST_F(CliExport, WhatIsMissingIsSaidInOneLine) {
  write("none.sh", R"(echo '{"missing":"No module named torch","package":"torch"}')");
  std::string none = "sh " + path("none.sh");
  Invocation torch = submit("zoo.mlp:Mlp", none);
  EXPECT_EQ(torch.wait(), 2);
  EXPECT_EQ(torch.err(),
            "lfarm: zoo.mlp:Mlp: '" + none +
                "' cannot export models (No module named torch); --python 'CMD' names a "
                "Python that has torch, or export it by torch.export.save\n");
  write("net.onnx", "12345");
  write("half.sh", R"(echo '{"missing":"No module named onnx2torch","package":"onnx2torch"}')");
  Invocation onnx = submit(path("net.onnx"), "sh " + path("half.sh"));
  EXPECT_EQ(onnx.wait(), 2);
  const std::string said = onnx.err();
  EXPECT_NE(said.find("install onnx and onnx2torch there"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;

  write("problem.sh",
        R"(echo '{"ready":1}'; read -r line; echo '{"problem":"needs example inputs"}')");
  Invocation problem = submit("zoo.mlp:Mlp", "sh " + path("problem.sh"));
  EXPECT_EQ(problem.wait(), 2);
  EXPECT_EQ(problem.err(), "lfarm: zoo.mlp:Mlp: needs example inputs\n");
  write("error.sh", R"(echo '{"ready":1}'; read -r line; echo '{"error":"Unsupported: a loop"}')");
  Invocation error = submit("zoo.mlp:Mlp", "sh " + path("error.sh"));
  EXPECT_EQ(error.wait(), 3);
  EXPECT_EQ(error.err(), "lfarm: zoo.mlp:Mlp cannot be exported: Unsupported: a loop\n");

  // What is exported already takes neither.
  Invocation given = submit(model("mlp"), none, {"--args", "1"});
  EXPECT_EQ(given.wait(), 2);
  Invocation away = submit(path("none.onnx"), none);
  EXPECT_EQ(away.wait(), 2);
  EXPECT_NE(away.err().find("none.onnx"), std::string::npos);
  EXPECT_FALSE(common::file_exists(state() + "/CURRENT")) << "nothing was searched for";
}

// Needs a Python with torch that sees this machine's files.
TEST_F(CliExport, WithTheRealExporter) {
  const char* python = std::getenv("LFARM_EXPORT_PYTHON");
  if (python == nullptr) {
    GTEST_SKIP() << "LFARM_EXPORT_PYTHON names no Python that has torch";
  }
  Invocation run = submit("torch.nn:Softmax", python,
                          {"--args", "torch.randn(3, 16)", "--save", path("kept.pt2")});
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_TRUE(common::file_exists(path("kept.pt2")));
  Invocation without = submit("torch.nn:Softmax", python);
  EXPECT_EQ(without.wait(), 2);
  EXPECT_NE(without.err().find("needs example inputs"), std::string::npos) << without.err();
}

}  // namespace
}  // namespace cli_testing
