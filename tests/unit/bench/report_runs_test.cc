// Logs of runs: if these fail, a training's or a validation's lines are taken wrongly, or a gate
// says something else than its limits.
#include <gtest/gtest.h>

#include <cmath>

#include "clients/report/bundle.h"
#include "clients/report/logs/run_lines.h"
#include "clients/report/logs/runs.h"
#include "clients/report/logs/trace_log.h"
#include "clients/report/page.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::RunLog;

constexpr int64_t kNow = 1'000'000'000;

std::vector<RunLog> imported(const std::string& text) {
  auto logs = import_logs(text, "run.jsonl", kNow);
  EXPECT_TRUE(logs.ok()) << logs.error().message;
  return logs.ok() ? *logs : std::vector<RunLog>();
}

// The training of a log whose head is followed by these lines.
Training training_of(const std::string& lines) {
  Runs runs = read_runs(imported(cat("{\"training\":\"fft\"}\n", lines)));
  EXPECT_EQ(runs.unread, std::vector<std::string>());
  return runs.trainings.empty() ? Training() : runs.trainings.front();
}

TEST(Logs, AFileMayHoldSeveral) {
  const std::string text =
      "\n{\"training\":\"fft\",\"at\":\"2026-11-21T22:45:36Z\",\"machine\":\"host\",\"device\":"
      "\"cpu\","
      "\"note\":\"a note\"}\n"
      "{\"step\":\t1,\"values\":{\"loss\":0.5}}\r\n\n"
      "{\"validation\":\"fft\",\"teacher\":\"model\"}\n"
      "{\"variant\":\"model\",\"batch\":1,\"latency_ms\":1,\"error\":0}";
  EXPECT_TRUE(begins_a_log(text));
  auto logs = imported(text);
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs[0].kind, "training");
  EXPECT_EQ(logs[0].at_ns, 1'795'301'136'000'000'000);
  EXPECT_EQ(logs[0].machine, "host");
  EXPECT_EQ(logs[1].kind, "validation");
  EXPECT_EQ(logs[1].at_ns, kNow);
  Runs runs = read_runs(logs);
  ASSERT_EQ(runs.count(), 2u);
  EXPECT_EQ(runs.trainings[0].head.note, "a note");
  EXPECT_EQ(runs.trainings[0].head.device, "cpu");
  EXPECT_EQ(runs.validations[0].rows.size(), 1u);
}

TEST(Logs, MeasurementsAreNone) {
  EXPECT_FALSE(begins_a_log(""));
  EXPECT_FALSE(begins_a_log("no json"));
  EXPECT_FALSE(begins_a_log(R"({"device":"cpu","backend":"eager","model":"m","latency_ms":1})"));
}

TEST(Logs, NameTheLineThatIsWrong) {
  const std::string good = "{\"training\":\"fft\"}\n{\"step\":1,\"values\":{\"loss\":1}}\n\n";
  std::vector<std::pair<std::string, std::string>> wrongs = {
      {"no json", "no JSON object"},
      {"{}", "lacks \"step\""},
      {R"({"step":1})", "lacks \"values\""},
      {R"({"step":-1,"values":{"a":1}})", "\"step\" is not a whole number"},
      {R"({"step":1,"values":{}})", "\"values\" is not"},
      {R"({"step":1,"values":{"a":"b"}})", "\"values\" is not an object of numbers"},
      {R"({"step":1,"values":{"a\nb":1}})", "control character"},
      {R"({"step":1,"values":{"a":1,"a":2}})", "comes twice"},
      {R"({"step":1,"values":{"a":1},"speed":2})", "\"speed\" is no word"},
      {R"({"map":"m","values":[[1,2],[3]]})", "rows of equal length"},
      {R"({"map":"m","values":[]})", "rows of equal length"},
      {R"({"map":"m","values":[[]]})", "rows of equal length"},
      {R"({"map":"","values":[[1]]})", "map is empty"},
      {R"({"part":"p"})", "lacks \"parameters\""},
      {R"({"part":"p","parameters":1,"bytes":{"a":-1}})", "not a number from 0"},
      {R"({"landscape":"l","x":"a","y":"b","at_x":[0],"at_y":[0,1],"values":[[1]]})",
       "a row for each"},
      {R"({"validation":"v"})", "lacks \"teacher\""},
      {"{\"training\":7}", "\"training\" is not a text"},
  };
  for (const auto& [wrong, why] : wrongs) {
    auto logs = import_logs(cat(good, wrong, "\n"), "run.jsonl", kNow);
    ASSERT_FALSE(logs.ok()) << wrong;
    EXPECT_EQ(logs.error().message.rfind("run.jsonl, line 4: ", 0), 0u) << logs.error().message;
    EXPECT_NE(logs.error().message.find(why), std::string::npos) << logs.error().message;
  }
}

TEST(Logs, WhatNobodyCanReadIsLeftOut) {
  RunLog later{kNow, "dance", "fft", "", "", "{\"dance\":\"fft\"}\n"};
  RunLog damaged{kNow, "training", "fft", "", "", "{\"training\":\"fft\"}\n{\"step\":1}\n"};
  Runs runs = read_runs({later, damaged});
  EXPECT_TRUE(runs.trainings.empty());
  ASSERT_EQ(runs.unread.size(), 2u);
  EXPECT_NE(runs.unread[0].find("later lfarm"), std::string::npos);
  EXPECT_NE(runs.unread[1].find("line 2"), std::string::npos);
}

TEST(Trainings, CurvesAreInTheOrderOfSteps) {
  Training training = training_of(
      "{\"step\":2,\"values\":{\"loss\":3,\"error\":null}}\n"
      "{\"step\":1,\"values\":{\"loss\":4}}\n"
      "{\"step\":2,\"values\":{\"loss\":2}}\n");
  ASSERT_EQ(training.curves.size(), 2u);
  EXPECT_EQ(training.curves[0].name, "error");
  EXPECT_TRUE(std::isnan(training.curves[0].points[0].second));
  EXPECT_EQ(training.curves[1].points, (std::vector<std::pair<int64_t, double>>{{1, 4}, {2, 2}}));
}

TEST(Trainings, MapsKeepTheirSnapshots) {
  Training training = training_of(
      "{\"map\":\"gates\",\"step\":9,\"rows\":\"stage\",\"values\":[[1,2],[3,null]]}\n"
      "{\"map\":\"gates\",\"step\":0,\"values\":[[0,0],[0,0]]}\n");
  ASSERT_EQ(training.maps.size(), 1u);
  EXPECT_EQ(training.maps[0].rows, "stage");
  ASSERT_EQ(training.maps[0].snapshots.size(), 2u);
  EXPECT_EQ(training.maps[0].snapshots[0].step, 0);
  EXPECT_TRUE(std::isnan(training.maps[0].snapshots[1].values[1][1]));
  auto other = import_logs(
      "{\"training\":\"a\"}\n{\"map\":\"m\",\"values\":[[1]]}\n{\"map\":\"m\",\"values\":[[1,2]]}"
      "\n",
      "run.jsonl", kNow);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("line 3: map \"m\" had other sizes"), std::string::npos);
}

TEST(Trainings, BoundsAreKept) {
  std::string row = "[0";
  for (size_t k = 1; k <= kMapCellsMax; ++k) row += ",0";
  std::string curves = "\"c\":0";
  for (size_t k = 0; k < kCurvesMax; ++k) curves += cat(",\"c", k, "\":0");
  for (const std::string& line :
       {cat("{\"map\":\"m\",\"values\":[", row, "]]}"),
        cat("{\"step\":0,\"values\":{", curves, "}}"),
        cat("{\"step\":0,\"values\":{\"", std::string(300, 'x'), "\":0}}")}) {
    auto logs = import_logs(cat("{\"training\":\"a\"}\n", line), "run.jsonl", kNow);
    EXPECT_FALSE(logs.ok()) << line.substr(0, 80);
  }
}

// A validation with a teacher of 1 ms and an error of 0.01, and one more variant.
Validation validation_of(double ms, double error) {
  Runs runs = read_runs(
      imported(cat("{\"validation\":\"fft\",\"teacher\":\"model\",\"device\":\"cpu\"}\n"
                   "{\"variant\":\"hard\",\"batch\":8,\"latency_ms\":",
                   ms, ",\"error\":", error, "}\n",
                   "{\"variant\":\"model\",\"batch\":8,\"latency_ms\":1,\"error\":0.01}\n")));
  return runs.validations.at(0);
}

TEST(Validations, HaveFourVerdicts) {
  struct Case {
    double ms, error;
    const char* verdict;
  };
  for (const Case& c :
       {Case{1.05, 0.016, "pass"}, Case{1.0501, 0.016, "pass in accuracy"},
        Case{1.05, 0.0161, "pass in speed"}, Case{1.06, 0.02, "fail"}, Case{0.5, 0, "pass"}}) {
    Validation validation = validation_of(c.ms, c.error);
    ASSERT_EQ(validation.rows.size(), 2u);
    EXPECT_EQ(validation.variants, (std::vector<std::string>{"model", "hard"}));
    EXPECT_FALSE(validation.rows[0].verdict);
    ASSERT_TRUE(validation.rows[1].verdict);
    EXPECT_STREQ(verdict_name(*validation.rows[1].verdict), c.verdict) << c.ms << " " << c.error;
    EXPECT_DOUBLE_EQ(*validation.rows[1].time_ratio, c.ms);
    EXPECT_DOUBLE_EQ(*validation.rows[1].error_limit, 0.016);
  }
}

TEST(Validations, AVariantPassesWhereEachBatchDoes) {
  Runs runs =
      read_runs(imported("{\"validation\":\"fft\",\"teacher\":\"model\"}\n"
                         "{\"variant\":\"model\",\"batch\":1,\"latency_ms\":1,\"error\":0}\n"
                         "{\"variant\":\"model\",\"batch\":8,\"latency_ms\":1,\"error\":0}\n"
                         "{\"variant\":\"a\",\"batch\":1,\"latency_ms\":1,\"error\":0}\n"
                         "{\"variant\":\"a\",\"batch\":8,\"latency_ms\":2,\"error\":0}\n"
                         "{\"variant\":\"b\",\"batch\":1,\"latency_ms\":1,\"error\":1}\n"
                         "{\"variant\":\"b\",\"batch\":8,\"latency_ms\":2,\"error\":0}\n"
                         "{\"variant\":\"c\",\"batch\":64,\"latency_ms\":2,\"error\":0}\n"
                         "{\"variant\":\"a\",\"batch\":8,\"latency_ms\":3,\"error\":0}\n"));
  const Validation& validation = runs.validations.at(0);
  EXPECT_EQ(verdict_of(validation, "a"), VariantVerdict::kPassInAccuracy);
  EXPECT_EQ(verdict_of(validation, "b"), VariantVerdict::kFail);
  // Not measured where the teacher was, and the teacher itself.
  EXPECT_EQ(verdict_of(validation, "c"), std::nullopt);
  EXPECT_EQ(verdict_of(validation, "model"), std::nullopt);
  // The later line of a batch counts.
  for (const VariantRow& row : validation.rows) {
    bool is_later = row.variant == "a" && row.batch == 8;
    EXPECT_EQ(row.latency_ms == 3, is_later);
    EXPECT_FALSE(row.error_ratio);  // over an error of 0
  }
}

TEST(Validations, RefuseWhatIsNoTimeOrError) {
  for (const char* line :
       {R"({"variant":"a","batch":0,"latency_ms":1,"error":0})",
        R"({"variant":"a","batch":1,"latency_ms":0,"error":0})",
        R"({"variant":"a","batch":1,"latency_ms":1,"error":-1})",
        R"({"variant":"a","batch":1,"latency_ms":1,"error":null})",
        R"({"variant":"a","batch":1,"latency_ms":1})", R"({"batch":1,"latency_ms":1,"error":0})"}) {
    auto logs = import_logs(cat("{\"validation\":\"v\",\"teacher\":\"t\"}\n", line), "f", kNow);
    ASSERT_FALSE(logs.ok()) << line;
    EXPECT_EQ(logs.error().message.rfind("f, line 2: ", 0), 0u) << logs.error().message;
  }
}

constexpr const char* kSearched =
    "{\"search\":\"mlp\",\"plan\":\"abc\",\"best_ms\":1,\"baseline_ms\":2}\n"
    "{\"progress\":2,\"at_s\":2,\"best_ms\":2,\"expected_ms\":1}\n"
    "{\"progress\":1,\"at_s\":1,\"best_ms\":2}\n"
    "{\"candidate\":1,\"region\":0,\"origin\":\"seed\",\"outcome\":\"ok\",\"at_s\":1,\"ms\":3}\n"
    "{\"candidate\":4,\"region\":0,\"origin\":\"schedules\",\"outcome\":\"ok\",\"at_s\":4,\"ms\":2}"
    "\n"
    "{\"candidate\":3,\"region\":0,\"origin\":\"schedules\",\"outcome\":\"ok\",\"at_s\":3,\"ms\":4}"
    "\n"
    "{\"candidate\":2,\"origin\":\"plain\",\"outcome\":\"crash\",\"at_s\":2}\n";

TEST(Searches, CountWhatWasKept) {
  SearchRun search = read_runs(imported(kSearched)).searches.at(0);
  EXPECT_EQ(search.plan, "abc");
  ASSERT_EQ(search.progress.size(), 2u);
  EXPECT_EQ(search.progress[0].candidates, 1);
  EXPECT_EQ(search.candidates.at(1).region, -1);
  auto counts = count_origins(search);
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts[0].origin, "seed");
  EXPECT_EQ(counts[0].kept, 1);
  EXPECT_EQ(counts[1].right, 0);
  EXPECT_EQ(counts[2].tried, 2);
  EXPECT_EQ(counts[2].kept, 1);
}

TEST(Searches, HaveALandscapeOfTheTwoParametersThatVaryMost) {
  std::string lines = "{\"search\":\"mlp\"}\n";
  for (int mr : {4, 6}) {
    for (int nr : {16, 32, 48}) {
      lines += cat("{\"kernel\":\"tile a\",\"schedule\":{\"kc\":0,\"mr\":", mr, ",\"nr\":", nr,
                   "},\"ms\":", mr * nr, "}\n");
    }
  }
  lines += "{\"kernel\":\"tile a\",\"schedule\":{\"kc\":0,\"mr\":4,\"nr\":16},\"ms\":1}\n";
  lines += "{\"kernel\":\"few\",\"schedule\":{\"mr\":4,\"nr\":16},\"ms\":1}\n";
  auto landscapes = schedule_landscapes(read_runs(imported(lines)).searches.at(0), 4);
  ASSERT_EQ(landscapes.size(), 1u);
  EXPECT_EQ(landscapes[0].x, "mr");
  EXPECT_EQ(landscapes[0].y, "nr");
  EXPECT_EQ(landscapes[0].at_y, (std::vector<double>{16, 32, 48}));
  EXPECT_EQ(landscapes[0].least_ms[0], (std::vector<double>{1, 96}));
  EXPECT_EQ(landscapes[0].tried, 7u);
}

TEST(Searches, AreMadeOfTraces) {
  const char* trace =
      R"({"traceEvents":[
      {"name":"round","cat":"search","ph":"X","ts":0,"dur":1,"args":{"completed":3}},
      {"name":"best so far","ph":"C","ts":2e6,"args":{"ns":5e6}},
      {"name":"expected","ph":"C","ts":3e6,"args":{"ns":4e6}},
      {"name":"candidate 1","cat":"candidate","ph":"X","ts":1e6,"dur":5e5,"args":{"candidate":1,
       "region":2,"origin":"seed","outcome":"ok","measured_ns":2000000,"kernel":"tile a",
       "kernel_ns":1000000,"schedule":{"mr":6}}},
      {"name":"candidate 2","cat":"candidate","ph":"X","ts":1e6,"dur":5e5,"args":{"candidate":2,
       "region":-1,"origin":"plain","outcome":"crash","measured_ns":0}}]})";
  TracedPlan found;
  found.head = {"mlp", "host", "cpu", "", kNow};
  found.plan = "abc";
  found.best_ms = 1;
  auto log = log_of_trace(trace, found);
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_TRUE(common::check_run_log(*log).ok());
  Runs runs = read_runs({*log});
  ASSERT_EQ(runs.searches.size(), 1u) << runs.unread.at(0);
  const SearchRun& search = runs.searches[0];
  EXPECT_EQ(search.head.at_ns, kNow);
  ASSERT_EQ(search.progress.size(), 2u);
  EXPECT_EQ(search.progress[1].candidates, 3);
  EXPECT_EQ(search.progress[1].best_ms, 5);
  EXPECT_EQ(search.progress[1].expected_ms, 4);
  ASSERT_EQ(search.candidates.size(), 2u);
  EXPECT_EQ(search.candidates[0].at_s, 1.5);
  EXPECT_EQ(search.candidates[0].ms, 2);
  ASSERT_EQ(search.kernels.size(), 1u);
  EXPECT_EQ(search.kernels[0].schedule, (NamedNumbers{{"mr", 6}}));
  for (const char* wrong : {"", "[]", "{}", R"({"traceEvents":[1]})",
                            R"({"traceEvents":[{"cat":"candidate","args":{"candidate":"x"}}]})"}) {
    auto refused = log_of_trace(wrong, found);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().code, common::Code::kCorrupt);
  }
}

TEST(Plans, TellTheirMemory) {
  PlanMemory plan;
  plan.head = {"mlp", "host", "cpu", "s0=1", kNow};
  plan.id = "abc";
  plan.memory = {{"arena", 64}, {"weights", 4096}};
  plan.kernels = {{"k0", "layers.*.up", "model.py:12", 4, 0.5}, {"gemm", "", "", 1, 0}};
  Runs runs = read_runs({log_of(plan)});
  ASSERT_EQ(runs.plans.size(), 1u);
  ASSERT_EQ(runs.plans[0].kernels.size(), 2u);
  EXPECT_EQ(runs.plans[0].kernels[0].modules, "layers.*.up");
  EXPECT_EQ(runs.plans[0].kernels[0].sources, "model.py:12");
  EXPECT_EQ(runs.plans[0].kernels[0].calls, 4);
  EXPECT_EQ(runs.plans[0].kernels[0].ms, 0.5);
  EXPECT_EQ(runs.plans[0].kernels[1].kernel, "gemm");
  std::string page = report_page({}, {}, "records", runs);
  EXPECT_NE(page.find("layers.*.up"), std::string::npos);
  EXPECT_NE(page.find("model.py:12"), std::string::npos);
  EXPECT_EQ(runs.plans[0].memory, plan.memory);
  EXPECT_EQ(runs.plans[0].head.note, "s0=1");
  EXPECT_EQ(runs.plans[0].id, "abc");
}

TEST(Bundle, HasAllThatThePageShows) {
  Runs runs;
  runs.trainings.push_back(training_of(
      "{\"step\":1,\"values\":{\"loss\":null}}\n{\"map\":\"m\",\"step\":1,\"values\":[[1]]}\n"
      "{\"part\":\"p\",\"parameters\":3,\"bytes\":{\"parameters\":12}}\n"
      "{\"landscape\":\"loss\",\"x\":\"a\",\"y\":\"b\",\"at_x\":[0],\"at_y\":[0],\"values\":[[1]]}"
      "\n"));
  runs.validations.push_back(validation_of(1, 0.01));
  runs.searches = read_runs(imported(kSearched)).searches;
  runs.plans.push_back(
      {{"mlp", "", "", "", kNow}, "abc", {{"arena", 64}}, {{"k0", "up", "m.py:1", 2, 3}}});
  std::string json = report_json({}, {}, "a \xFF file", runs);
  for (const char* part :
       {R"("curves":{"loss":[[1,null]]})", R"("map":"m")", R"("part":"p","parameters":3)",
        R"("landscape":"loss")", R"("verdict":"pass")", R"("origin":"seed")",
        R"("memory":{"arena":64.0})",
        R"("kernel":"k0","modules":"up","sources":"m.py:1","calls":2)", R"("measurements":[])",
        R"("gates":[])"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
}

}  // namespace
}  // namespace clients
