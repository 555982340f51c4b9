// Records, reports and scorecards with the real binaries: if these fail, what was measured does not
// reach the page, or exit codes tell scripts the wrong thing.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "tests/farm/cli/cli_testing.h"

namespace {

using cli_testing::CliTest;
using cli_testing::Invocation;
using common::cat;

class CliReport : public CliTest {
 protected:
  // Exit code and the one line.
  void expect_refusal(std::vector<std::string> arguments, int code, const std::string& words) {
    Invocation run = lfarm(std::move(arguments));
    EXPECT_EQ(run.wait(), code) << run.err() << run.out();
    std::string text = run.err();
    EXPECT_EQ(text.rfind("lfarm: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
  // The page that a report wrote; its exit code must be this.
  std::string page(int code, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"report", "--db", path("m.db"), "-o", path("report.html")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Invocation run = lfarm(arguments);
    EXPECT_EQ(run.wait(), code) << run.err() << run.out();
    return common::read_file(path("report.html")).value();
  }
  void import(const std::string& lines) {
    write("m.json", lines);
    Invocation run = lfarm({"report", "import", path("m.json"), "--db", path("m.db")});
    EXPECT_EQ(run.wait(), 0) << run.err();
  }
};

constexpr const char* kEager =
    R"({"device":"cpu","backend":"eager","model":"llama","batch":1,"latency_ms":2})"
    "\n";

TEST_F(CliReport, WhatIsImportedIsShownAndGated) {
  import(kEager);
  EXPECT_NE(page(0).find("<bdi>llama</bdi>"), std::string::npos);
  page(0, {"--gate", "latency_ms <= 2"});
  EXPECT_NE(page(1, {"--gate", "latency_ms < 2"}).find("latency_ms &lt; 2"), std::string::npos);
  page(1, {"--gate", "error_rel <= 1"});
  write("gates", "latency_ms <= 3 # enough\n");
  page(0, {"--gates", path("gates")});
  write("gates", "latency_ms <= 3\nspeed > 1\n");
  expect_refusal({"report", "--db", path("m.db"), "--gates", path("gates")}, 2, "line 2");
  expect_refusal({"report", "--db", path("m.db"), "--gate", "fast"}, 2, "gate 'fast'");
}

TEST_F(CliReport, LogsOfRunsAreShownAndGiven) {
  import(
      "{\"training\":\"fft\",\"device\":\"cpu\"}\n{\"step\":1,\"values\":{\"loss\":2}}\n"
      "{\"step\":2,\"values\":{\"loss\":1}}\n");
  std::string html = page(0);
  EXPECT_NE(html.find("1 log of a run of"), std::string::npos);
  EXPECT_NE(html.find("<bdi>fft</bdi>"), std::string::npos);
  Invocation json = lfarm({"report", "--db", path("m.db"), "--json", "--gate", "latency_ms <= 1"});
  EXPECT_EQ(json.wait(), 1) << json.err();
  auto bundle = nlohmann::json::parse(json.out());
  EXPECT_EQ(bundle.at("trainings").at(0).at("curves").at("loss").at(1).at(1), 1);
  EXPECT_EQ(bundle.at("gates").at(0).at("passed"), false);
  write("wrong.jsonl", "{\"training\":\"fft\"}\n{\"step\":1}\n");
  expect_refusal({"report", "import", path("wrong.jsonl"), "--db", path("m.db")}, 2,
                 "wrong.jsonl, line 2");
}

TEST_F(CliReport, RunsOfLanguageModelsAreShown) {
  const std::string folder = path("runs");
  std::filesystem::create_directories(folder);
  for (const char* ms : {"10", "12"}) {
    write(cat("runs/run-", ms, ".jsonl"),
          cat("{\"bench\":\"llm\",\"run\":\"run-", ms,
              "\",\"device\":\"cpu\"}\n{\"model\":\"qwen\",\"way\":\"lfarm\",\"shape\":\"full\","
              "\"prompt_tokens\":64,\"ttft_samples\":[50],\"tpot_samples\":[",
              ms, "],\"plan_s\":3,\"peak_mb\":100}\n"));
  }
  Invocation made = lfarm({"report", "--llm", folder, "-o", path("llm.html")});
  EXPECT_EQ(made.wait(), 0) << made.err();
  EXPECT_EQ(made.out(), cat("slower  qwen, lfarm, 64 tokens: each other token 1.20 times as long\n",
                            path("llm.html"), ": 2 runs\n"));
  EXPECT_NE(common::read_file(path("llm.html")).value().find("12.0 ms"), std::string::npos);
  Invocation json = lfarm({"report", "--llm", folder, "--json"});
  EXPECT_EQ(json.wait(), 0) << json.err();
  EXPECT_EQ(nlohmann::json::parse(json.out()).at("runs").size(), 2u);

  expect_refusal({"report", "--llm", path("none")}, 2, "No such file");
  expect_refusal({"report", "--png", path("pictures")}, 2, "--llm");
  write("runs/run-13.jsonl", "nothing\n");
  expect_refusal({"report", "--llm", folder, "-o", path("x.html")}, 2, "line 1");
}

TEST_F(CliReport, AWrongLineKeepsAllOut) {
  import(kEager);
  write("wrong.json", std::string(kEager) + kEager + "{\"device\":\"cpu\"}\n");
  expect_refusal({"report", "import", path("wrong.json"), "--db", path("m.db")}, 2, "line 3");
  EXPECT_NE(page(0).find("1 record of"), std::string::npos);
}

TEST_F(CliReport, OfNothingSaysWhatToRun) {
  expect_refusal({"report", "--db", path("absent.db")}, 2, "lfarm check CASE... --record");
  EXPECT_FALSE(common::file_exists(path("absent.db")));
  write("text.db", "no database");
  expect_refusal({"report", "--db", path("text.db")}, 2, path("text.db"));
}

TEST_F(CliReport, ChecksAreRecorded) {
  Invocation check = lfarm(
      {"check", "--reference", fixture("mlp"), fixture("mlp_dynamic"), "--record", path("m.db")});
  EXPECT_EQ(check.wait(), 0) << check.err() << check.out();
  std::string html = page(0, {"--gate", "error_rel{backend=interpreter,model=mlp} <= 1e-4"});
  for (const char* words : {"<bdi>mlp</bdi>", "<bdi>mlp_dynamic</bdi>", "s0=", "batch 3",
                            "outputs as PyTorch&#39;s", "2 of 2 pass"}) {
    EXPECT_NE(html.find(words), std::string::npos) << words;
  }
}

TEST_F(CliReport, PlansAreScored) {
  Invocation submit = lfarm({"submit", model("kv_step"), "--budget", "2", "--workers", "1",
                             "--device", "cpu", "--record", path("m.db")});
  ASSERT_EQ(submit.wait(), 0) << submit.err();
  std::string searched = page(0);
  EXPECT_NE(searched.find("Search budget sweeps"), std::string::npos);
  EXPECT_NE(searched.find("Courses of searches"), std::string::npos);
  EXPECT_NE(searched.find("Candidates tried and kept"), std::string::npos);
  Invocation json = lfarm(
      {"plan", "score", model("kv_step"), "--device", "cpu", "--json", "--record", path("m.db")});
  ASSERT_EQ(json.wait(), 0) << json.err();
  EXPECT_NE(page(0).find("Memory of plans"), std::string::npos);
  auto card = nlohmann::json::parse(json.out());
  EXPECT_GT(card.at("latency").at("ms").get<double>(), 0);
  EXPECT_GT(card.at("efficiency").get<double>(), 0);
  EXPECT_TRUE(card.at("regressions").empty());
  ASSERT_FALSE(card.at("kernels").empty());
  double operations = 0;
  for (const auto& kernel : card.at("kernels")) {
    operations += kernel.at("operations").get<double>();
    EXPECT_GT(kernel.at("bytes").get<double>(), 0) << kernel;
    EXPECT_NE(kernel.at("operation"), "") << kernel;
  }
  EXPECT_GT(operations, 0);  // though a kernel that moves has none
  // By the plan's id, against what was recorded and against a profile.
  write("other.json", R"({"runtime":"other","operators":[{"name":"no such","ms":1}]})");
  Invocation text = lfarm({"plan", "score", card.at("graph").get<std::string>(), "--device", "cpu",
                           "--against", path("other.json")});
  EXPECT_EQ(text.wait(), 0) << text.err();
  EXPECT_NE(text.out().find("## Parity with other: not comparable"), std::string::npos)
      << text.out();
  // A run that was a thousand times as fast before makes this one's regression critical.
  card.at("latency").at("ms") = card.at("latency").at("ms").get<double>() / 1000;
  card.at("latency").at("spread_ms") = 0;
  write("before.json", card.dump());
  Invocation slower = lfarm(
      {"plan", "score", model("kv_step"), "--device", "cpu", "--previous", path("before.json")});
  int code = slower.wait();
  std::string row = slower.out();
  row.erase(0, std::min(row.size(), row.find("| the plan |")));
  row = row.substr(0, row.find('\n'));
  // Unless runs scatter more widely than that, which the card says.
  EXPECT_TRUE(row.ends_with("| critical |") || row.ends_with("| within noise |"))
      << slower.out() << slower.err();
  bool critical = slower.out().find("| critical |") != std::string::npos;
  EXPECT_EQ(code, critical ? 1 : 0) << slower.out();
  expect_refusal(
      {"plan", "score", model("kv_step"), "--device", "cpu", "--previous", path("other.json")}, 2,
      "no scorecard");
  expect_refusal({"plan", "score", model("kv_step"), "--device", "cpu", "--against", path("m.db")},
                 2, path("m.db"));
  expect_refusal({"plan", "score", model("kv_step"), "--device", "cpu", "--sizes", "s9=1"}, 2,
                 "s9");
}

}  // namespace
