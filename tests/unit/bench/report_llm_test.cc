// The report of language models: if these fail, a way is missing from the bars, a regression is
// not seen, or noise is taken for one.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "clients/report/llm/llm_curves.h"
#include "clients/report/llm/llm_image.h"
#include "clients/report/llm/llm_page.h"
#include "clients/report/llm/llm_series.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/process/subprocess.h"

namespace clients {
namespace {

using common::cat;

LlmRow row(const std::string& way, std::vector<double> tpot_ms, int64_t budget = 0) {
  return {"qwen3_4b", way, "reduced", 128, budget, {40, 42, 41}, std::move(tpot_ms), 12, 900, ""};
}

LlmRun run(int number, std::vector<LlmRow> rows) {
  return {cat("run-", number),
          "2026-11-26T00:00:00Z",
          "0123456789",
          "main",
          "a machine",
          "cpu",
          "",
          "",
          "all",
          std::move(rows)};
}

bool has(const std::string& page, const std::string& text) {
  return page.find(text) != std::string::npos;
}

TEST(LlmReport, ShowsEveryWayAndWhyOneHasNoTime) {
  LlmRow failed{"qwen3_4b", "eager", "", 128, 0, {}, {}, 0, 0, "no memory <b>"};
  const LlmRun one = run(1, {row("lfarm", {8, 9, 10}), row("torch.compile", {12, 12, 12}), failed});
  const std::vector<BarGroup> groups = bars_of(one, LlmFigure::kNextToken);
  ASSERT_EQ(groups.size(), 1u);
  ASSERT_EQ(groups[0].bars.size(), 3u);
  EXPECT_EQ(groups[0].bars[0].value, 9);
  EXPECT_EQ(groups[0].bars[0].low, 8);
  EXPECT_EQ(groups[0].bars[0].high, 10);
  EXPECT_EQ(bars_of(one, LlmFigure::kFirstToken)[0].bars[1].value, 41);
  EXPECT_EQ(bars_of(one, LlmFigure::kPlan)[0].bars[1].text, "12.0 s");
  EXPECT_TRUE(groups[0].bars[2].is_missing);
  EXPECT_EQ(bars_end(groups), 20);

  const std::string page = llm_page({one}, "runs");
  for (const char* text : {"torch.compile", "no memory &lt;b&gt;", "9.00 ms", "a machine"}) {
    EXPECT_TRUE(has(page, text)) << text;
  }
  EXPECT_FALSE(has(page, "<b>"));
  EXPECT_FALSE(has(page, "Slower than before</h2>"));  // of one run
  EXPECT_FALSE(has(page, "://"));                      // nothing is fetched
}

TEST(LlmReport, ARegressionIsSlowerThanTheRunsBeforeByMoreThanItScatters) {
  auto slower = [](std::vector<double> last) {
    return llm_series({run(1, {row("lfarm", {10, 10, 10})}), run(2, {row("lfarm", {11, 11, 11})}),
                       run(3, {row("lfarm", {10, 10, 10})}), run(4, {row("lfarm", last)})})
        .at(0);
  };
  EXPECT_EQ(slower({12, 12, 13}).tpot_slower, 1.2);
  EXPECT_EQ(slower({12, 12, 13}).ttft_slower, 0);
  EXPECT_FALSE(slower({9.9, 12, 13}).is_regression()) << "one sample was as fast as before";
  EXPECT_FALSE(slower({10.4, 10.4, 10.4}).is_regression());
  EXPECT_FALSE(slower({5, 5, 5}).is_regression());
}

TEST(LlmReport, OnlyTheSameIsCompared) {
  LlmRun other = run(2, {row("lfarm", {20, 20, 20})});
  other.machine = "another machine";
  std::vector<LlmSeries> all = llm_series({run(1, {row("lfarm", {10, 10, 10})}), other});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[1].is_regression());
  all = llm_series({run(1, {row("lfarm", {10, 10}, 10)}), run(2, {row("lfarm", {20, 20}, 100)})});
  EXPECT_EQ(all.size(), 2u) << "searches of 10 and 100 candidates";
  // The last run measured something else.
  all = llm_series(
      {run(1, {row("lfarm", {10})}), run(2, {row("lfarm", {20})}), run(3, {row("eager", {30})})});
  EXPECT_FALSE(all.at(0).is_regression());
}

TEST(LlmReport, PagesShowRegressionsHistoryAndBudgets) {
  const std::vector<LlmRun> runs = {
      run(1, {row("lfarm", {10, 10}), row("eager", {30, 30})}),
      run(2, {row("lfarm", {20, 20}), row("eager", {30, 30}), row("lfarm", {18, 18}, 10),
              row("lfarm", {9, 9}, 500)})};
  const std::string page = llm_page(runs, "runs");
  EXPECT_TRUE(has(page, "2.00\u00d7 as long"));
  EXPECT_TRUE(has(page, "Quality over candidates"));
  EXPECT_TRUE(has(page, "10.0 ms to 20.0 ms"));
  EXPECT_TRUE(has(page, "lfarm, 500 candidates"));
  const auto json = nlohmann::json::parse(llm_json(runs));
  EXPECT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][1]["rows"].size(), 4u);
  const auto& series = json["series"];
  ASSERT_EQ(series.size(), 4u);
  EXPECT_EQ(series[0]["tpot_slower"], 2);
  EXPECT_FALSE(series[1].contains("tpot_slower"));
}

TEST(LlmReport, AHistoryMarksEachRunThatWasSlowerThanThoseBefore) {
  const std::vector<LlmRun> runs = {run(1, {row("lfarm", {10, 10})}),
                                    run(2, {row("lfarm", {15, 15})}),
                                    run(3, {row("lfarm", {10, 10})})};
  const std::vector<LlmSeries> all = llm_series(runs);
  EXPECT_EQ(all[0].points[1].tpot_slower, 1.5);
  EXPECT_FALSE(all[0].is_regression()) << "the last run is as fast as the first";
  const std::vector<LlmPlot> plots = history_plots(runs, all);
  ASSERT_EQ(plots.size(), 1u);
  EXPECT_EQ(plots[0].lines[0].ringed, (std::vector<size_t>{1}));
  const std::string page = llm_page(runs, "runs");
  EXPECT_TRUE(has(page, "15.0, 1.50\u00d7 as long"));
  EXPECT_TRUE(has(page, R"(class="ring")"));
  const auto points = nlohmann::json::parse(llm_json(runs))["series"][0]["points"];
  EXPECT_EQ(points[1]["tpot_slower"], 1.5);
  EXPECT_FALSE(points[2].contains("tpot_slower"));
}

TEST(LlmReport, QualityOverCandidatesIsOfTheLastRunThatTriedSeveral) {
  const LlmRun sweep =
      run(1, {row("lfarm", {9, 9}, 500), row("lfarm", {18, 18}, 10), row("lfarm", {12, 12}, 100)});
  const std::vector<LlmPlot> plots = budget_plots({sweep, run(2, {row("lfarm", {9, 9}, 100)})});
  ASSERT_EQ(plots.size(), 1u);
  const std::vector<std::pair<double, double>> expected = {{10, 2}, {100, 12.0 / 9}, {500, 1}};
  EXPECT_EQ(plots[0].lines[0].points, expected);
  EXPECT_TRUE(budget_plots({run(1, {row("lfarm", {9, 9}, 100)})}).empty());
}

TEST(LlmReport, WithoutRunsThePageSaysHowToMeasure) {
  EXPECT_TRUE(has(llm_page({}, "runs"), "lfarm-bench llm --mode quick --out runs"));
  EXPECT_EQ(llm_json({}), R"({"runs":[],"series":[]})");
}

TEST(LlmReport, PicturesOfCurves) {
  const std::vector<LlmRun> runs = {run(1, {row("lfarm", {10, 10}), row("eager", {20, 20})}),
                                    run(2, {row("lfarm", {15, 15}), row("eager", {20, 20})})};
  const std::vector<LlmSeries> all = llm_series(runs);
  const std::string svg =
      curves_svg("History <1>", "run", Axis::Kind::kLinear, history_plots(runs, all));
  EXPECT_TRUE(has(svg, "History &lt;1&gt;"));
  EXPECT_TRUE(has(svg, "qwen3_4b (reduced), 128 tokens, on cpu"));
  // Two ways from the left edge to the right one; the ring of the slower run, half way up.
  EXPECT_TRUE(has(svg, R"(d="M96.0 248.0L936.0 163.0")")) << svg;
  EXPECT_TRUE(has(svg, R"(d="M96.0 78.0L936.0 78.0")")) << svg;
  EXPECT_TRUE(has(svg, R"(cx="936.0" cy="163.0" r="9.0")")) << svg;
  EXPECT_TRUE(has(svg, ">2</text>"));
  EXPECT_FALSE(has(svg, ">1.2</text>")) << "there are no parts of runs";
  EXPECT_TRUE(has(svg, ">eager</text>"));
  EXPECT_FALSE(has(svg, ">torch.compile</text>"));
}

TEST(LlmReport, Pictures) {
  const LlmRun one = run(1, {row("lfarm", {8, 9, 10}), row("eager & others", {12})});
  const std::string svg = bars_svg("TPOT <1>", bars_of(one, LlmFigure::kNextToken));
  EXPECT_TRUE(has(svg, "TPOT &lt;1&gt;"));
  EXPECT_TRUE(has(svg, "eager &amp; others"));
  // The longest bar is 12 of 20 of the scale.
  EXPECT_TRUE(has(svg, R"(width="337.2")")) << svg;
  auto scratch = common::ScratchDirectory::create("lfarm-report-test");
  ASSERT_TRUE(scratch.ok());
  const std::string path = scratch->path() + "/tpot.png";
  if (!common::run_command({"rsvg-convert", "--version"}, 10'000).ok()) {
    GTEST_SKIP() << "rsvg-convert (package librsvg2-bin) is not installed";
  }
  common::Status written = write_png(svg, path);
  ASSERT_TRUE(written.ok()) << written.error().message;
  auto bytes = common::read_file(path);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->substr(1, 3), "PNG");
  EXPECT_FALSE(write_png(svg, scratch->path() + "/no/such/folder/x.png").ok());
}

}  // namespace
}  // namespace clients
