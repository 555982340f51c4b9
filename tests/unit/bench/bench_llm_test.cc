// lfarm-bench llm: if these fail, a model that runs out of memory ends the run, a first run that
// warms up counts as a sample, or what was kept of a run cannot be shown again.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/base/cat.h"
#include "tests/bench/llm/llm_runs.h"
#include "tests/bench/llm/llm_way.h"

namespace bench {
namespace {

using common::cat;

class LlmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = cat(::testing::TempDir(), "/llm_",
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);  // of an earlier run
    std::filesystem::create_directories(folder_);
    options_.prompts = {16, 64};
    options_.samples = 2;
    options_.timeout_s = 60;
  }

  // A program that sh runs.
  std::string program(const std::string& name, const std::string& text) {
    std::string path = cat(folder_, "/", name);
    std::ofstream(path) << "#!/bin/sh\n" << text;
    ::chmod(path.c_str(), 0700);
    return path;
  }

  std::string folder_;
  LlmOptions options_;
};

TEST_F(LlmTest, AWayInPythonGivesARowForEachPrompt) {
  // $3 is what the peer is asked for.
  options_.python = {"sh", program("python", R"(
    case "$3" in *'"way":"inductor"'*) ;; *) echo '{"error":"another way"}'; exit;; esac
    echo '{"ready":1,"shape":"an eighth"}'
    for n in 16 64; do
      echo "{\"prompt_tokens\":$n,\"ttft_ms\":[$n,3,5],\"tpot_ms\":[2,2,4],\"plan_s\":7,\"peak_mb\":9}"
    done)")};
  std::vector<LlmRow> rows = measure_way(options_, "qwen3_4b", "torch.compile", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].prompt_tokens, 64);
  EXPECT_EQ(rows[1].error, "");
  EXPECT_EQ(json_of(rows[1]),
            R"({"bench":"llm","model":"qwen3_4b","way":"torch.compile","shape":"an eighth",)"
            R"("prompt_tokens":64,"ttft_ms":5.0,"tpot_ms":2.0,"tokens_per_s":500.0,"plan_s":7.0,)"
            R"("peak_mb":9.0,"ttft_samples":[64.0,3.0,5.0],"tpot_samples":[2.0,2.0,4.0]})");
}

TEST_F(LlmTest, AFailureIsARowAndNotTheEnd) {
  options_.python = {"sh", program("python", R"(
    echo '{"ready":1,"shape":"full"}'
    echo '{"prompt_tokens":16,"ttft_ms":[1],"tpot_ms":[1],"plan_s":0,"peak_mb":1}'
    echo '{"error":"OutOfMemoryError: CUDA out of memory"}')")};
  std::vector<LlmRow> rows = measure_way(options_, "llama3_8b", "eager", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "");
  EXPECT_EQ(rows[1].error, "OutOfMemoryError: CUDA out of memory");
  EXPECT_NE(table_of(rows).find("| 64 |  | OutOfMemoryError: CUDA out of memory |"),
            std::string::npos);
  options_.python = {"sh", program("python", "echo no memory >&2; kill -9 $$")};
  rows = measure_way(options_, "llama3_8b", "eager", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "eager: was ended by signal 9: no memory");
}

TEST_F(LlmTest, LfarmAloneRunsWhatThePeerExported) {
  options_.python = {"sh", program("python", R"(
    echo '{"ready":1,"shape":"full"}'
    echo '{"archive":"prompt","bytes":6,"words":50}'; printf 'prompt'
    echo '{"archive":"decode","bytes":3,"words":50}'; printf 'dec')")};
  // Refuses to run without both files, and says which prompt it was given and how often to run.
  options_.lfarm = program("lfarm", R"sh(
    [ "$(cat "$2/prompt.pt2")$(cat "$2/decode.pt2")" = promptdec ] || exit 5
    n=$(wc -w < "$4"); runs=0
    while [ $runs -lt "$9" ]; do
      echo '{"sequence":0,"step":0,"token":4}'
      echo "{\"summary\":true,\"ttft_ms\":$runs,\"tpot_ms\":$n,\"plan_s\":1.5,\"peak_mb\":20}"
      runs=$((runs + 1))
    done)sh");
  std::vector<LlmRow> rows = measure_way(options_, "qwen3_4b", "lfarm", 10, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "");
  EXPECT_EQ(rows[0].ttft_ms, (std::vector<double>{1, 2})) << "the first run only warms up";
  EXPECT_EQ(rows[1].tpot_ms, (std::vector<double>{64, 64}));
  EXPECT_EQ(rows[1].budget, 10);
  EXPECT_EQ(rows[1].plan_s, 1.5);
}

TEST_F(LlmTest, APeerOfLfarmIsGivenAFarmUnlessItHasOne) {
  // Says which farm it was told.
  options_.python = {"sh", program("python", R"sh(
    farm=$(printf %s "$3" | sed 's/.*"farm":"\([^"]*\)".*/\1/')
    echo "{\"error\":\"asked $farm\"}")sh")};
  options_.lfarm = program("lfarm", R"sh(
    [ "$1 $2 $4 $5" = "up --state --device cpu" ] || exit 5
    echo "farm at tcp://127.0.0.1:4711"; sleep 60)sh");
  std::vector<LlmRow> rows = measure_way(options_, "qwen3_4b", "torch.compile+lfarm", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "asked tcp://127.0.0.1:4711");
  options_.session = R"({"farm":"tcp://host:7171"})";
  options_.lfarm = program("lfarm", "exit 5");
  rows = measure_way(options_, "qwen3_4b", "torch.compile+lfarm", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].error, "asked tcp://host:7171");
  options_.session.clear();
  options_.lfarm = program("lfarm", "echo no room >&2; exit 1");
  rows = measure_way(options_, "qwen3_4b", "torch.compile+lfarm", 0, folder_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_NE(rows[0].error.find("no room"), std::string::npos) << rows[0].error;
}

TEST_F(LlmTest, RunsAreKept) {
  LlmRun run = begin_run("quick", "cpu");
  run.rows.push_back({"llama3_8b", "eager", "full", 16, 0, {1, 2}, {3, 5}, 0, 4, ""});
  ASSERT_TRUE(write_run(folder_, run).ok());
  LlmRow failed{"llama3_8b", "lfarm", "", 64, 10, {}, {}, 0, 0, "no memory"};
  ASSERT_TRUE(append_row(folder_, run.id, failed).ok());
  auto runs = clients::read_llm_runs(folder_);
  ASSERT_TRUE(runs.ok()) << runs.error().message;
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ((*runs)[0].id, run.id);
  EXPECT_EQ((*runs)[0].mode, "quick");
  EXPECT_EQ(clients::table_of((*runs)[0].rows), clients::table_of({run.rows[0], failed}));

  const std::string path = clients::run_path(folder_, run.id);
  std::ofstream(path, std::ios::app) << "{\"model\":\"lla";
  auto killed = clients::read_llm_run(path);
  ASSERT_TRUE(killed.ok()) << killed.error().message;
  EXPECT_EQ(killed->rows.size(), 2u);

  std::ofstream(path, std::ios::app) << "\n";
  auto broken = clients::read_llm_run(path);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("line 4"), std::string::npos) << broken.error().message;
}

}  // namespace
}  // namespace bench
