// Runs on a report's page: if these fail, a figure has no table or no words, a name becomes markup,
// or a page of one number is full of charts.
#include <gtest/gtest.h>

#include <cmath>

#include "clients/report/page.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "tests/unit/bench/page_reader.h"

namespace clients {
namespace {

using common::cat;

size_t count(const std::string& page, const std::string& text) {
  size_t found = 0;
  for (size_t at = 0; (at = page.find(text, at)) != std::string::npos; ++at) ++found;
  return found;
}

Training training(const std::string& name) {
  Training training;
  training.head = {name, name, name, name, 1'795'301'136'000'000'000};
  Curve all{cat("loss/", name), {}}, part{"loss/mel", {}}, error{"error", {}};
  for (int64_t step = 0; step < 500; ++step) {
    all.points.emplace_back(step, 1.0 / static_cast<double>(1 + step));
    part.points.emplace_back(step, 0.1);
    error.points.emplace_back(step, -0.5);
  }
  training.curves = {all, part, error, {cat("once ", name), {{499, 0.25}}}};
  training.maps.push_back({cat("gates ", name), name, name, {{0, {{0, 1}}}, {5, {{1, 1}}}}});
  training.maps.push_back({"filters", "", "", {{0, {{0, 1}, {1, 0.5}}}}});
  training.parts = {{name, 10, {{"gradients", 40}, {name, 40}}}, {"rest", 1, {}}};
  training.landscapes.push_back(
      {name, name, name, {-1, 0, 1}, {-1, 0, 1}, {{3, 2, 3}, {2, 1, 2}, {3, 2, 3}}});
  return training;
}

Validation validation(const std::string& name, const std::string& device) {
  Validation validation;
  validation.head = {name, "host", device, name, 1'795'301'136'000'000'000};
  validation.teacher = cat("teacher ", name);
  validation.variants = {validation.teacher, cat("hard ", name)};
  for (int64_t batch : {1, 8}) {
    validation.rows.push_back({validation.teacher, batch, 1.0, 0.1, 0.001, {}, {}, {}, {}});
    validation.rows.push_back(
        {validation.variants[1], batch, 0.5, 0, 0.002, 0.5, 0.0025, 2.0, VariantVerdict::kPass});
  }
  return validation;
}

Runs sample(const std::string& name) {
  Runs runs;
  runs.trainings.push_back(training(name));
  runs.validations = {validation(name, "cpu"), validation(name, "cuda <b>"),
                      validation("other", "cpu")};
  SearchRun search;
  search.head = {name, name, name, name, 1'795'301'136'000'000'000};
  search.best_ms = 1;
  search.baseline_ms = 2;
  search.progress = {{1, 0.5, 2, 0}, {2, 1, 2, 1.5}, {3, 2, 1, 1}};
  search.candidates = {{1, 0, name, name, 0.5, 2, true}, {2, -1, "plain", "crash", 1, 0, false}};
  for (double mr : {4, 6}) {
    for (double nr : {16, 32}) search.kernels.push_back({name, {{name, mr}, {"nr", nr}}, mr * nr});
  }
  runs.searches.push_back(search);
  runs.plans.push_back({search.head, name, {{name, 64}, {"weights", 4096}}});
  runs.unread.push_back(cat("training ", name, ": line 2"));
  return runs;
}

TEST(RunsPage, ShowsTrainingsAndValidations) {
  std::string page = report_page({}, {}, "run.db", sample("fft"));
  Seen seen = read_page(page);
  EXPECT_TRUE(seen.nests);
  for (const char* words :
       {">Training<", ">Validation of variants<", "loss, logarithmic", "gates fft over steps",
        "Parameters and memory by part", "Landscapes", "teacher fft", "7 logs of runs of",
        "Courses of searches", "Memory of plans", "A log is left out", "pass"}) {
    EXPECT_NE(page.find(words), std::string::npos) << words;
  }
  // Nobody measured, and nobody set a gate: the page says nothing of these.
  EXPECT_EQ(page.find("Pass/fail gates"), std::string::npos);
  EXPECT_EQ(page.find("Latency and error"), std::string::npos);
  EXPECT_NE(report_page({}, {parse_gate("latency_ms <= 1").value()}, "run.db", sample("fft"))
                .find("Pass/fail gates"),
            std::string::npos);
  EXPECT_EQ(page, report_page({}, {}, "run.db", sample("fft")));
}

TEST(RunsPage, HasATableBehindEveryFigureAndWordsForIt) {
  std::string page = report_page({}, {}, "run.db", sample("fft"));
  // Two of curves, two maps, parts and a landscape; of three validations two over batches and a
  // scatter.
  // Of the search two and a landscape; of the plan one.
  EXPECT_EQ(count(page, "<figure>"), 6u + 9u + 3u + 1u);
  // Curves together, maps and landscape each, parts.
  // Of the search progress, candidates and the landscape; of the plan one.
  EXPECT_EQ(count(page, "<details>"), 1u + 3u + 1u + 3u + 1u);
  // Two heat maps and the sorted table of each validation beside these.
  // And the search's origins, in the open.
  EXPECT_EQ(count(page, "<table"), 5u + 9u + 4u + 1u);
  EXPECT_EQ(count(page, "role=\"img\""), count(page, "role=\"img\" aria-label=\""));
  EXPECT_EQ(count(page, "aria-label=\"\""), 0u);
  EXPECT_EQ(count(page, "<th"), count(page, "<th scope=") + count(page, "<thead>"));
  // A device each, of which one is chosen; the style sheet does the rest.
  EXPECT_EQ(count(page, "<input type=\"radio\""), 2u);
  EXPECT_EQ(count(page, "checked=\"\""), 1u);
  EXPECT_EQ(count(page, "<label for="), 2u);
}

TEST(RunsPage, NamesStayText) {
  const std::string hostile =
      "</td></style><script>alert(1)</script><img src=x onerror='a'>\"&amp;";
  std::string page = report_page({}, {}, hostile, sample(hostile));
  Seen seen = read_page(page);
  EXPECT_TRUE(seen.nests);
  for (const char* element : {"script", "img", "b", "form", "link", "iframe"}) {
    EXPECT_FALSE(common::contains(seen.elements, element)) << element;
  }
  for (const char* attribute : {"onerror", "src", "href", "style"}) {
    EXPECT_FALSE(common::contains(seen.attributes, attribute)) << attribute;
  }
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
}

TEST(RunsPage, OfOneStepAndOneVariantHasNumbersAndNoCharts) {
  Runs runs;
  Training one;
  one.head.name = "one";
  one.curves = {{"loss", {{3, 0.25}}}, {"error", {{3, 0.5}}}};
  one.parts = {{"all", 10, {{"parameters", 40}}}};
  runs.trainings.push_back(one);
  Validation alone;
  alone.head.name = "one";
  alone.teacher = "model";
  alone.variants = {"model"};
  alone.rows = {{"model", 1, 1.0, 0, 0, {}, {}, {}, {}}};
  runs.validations.push_back(alone);
  Validation nothing;
  nothing.head.name = "nothing";
  runs.validations.push_back(nothing);
  Training bare;
  bare.head.name = "bare";
  runs.trainings.push_back(bare);
  std::string page = report_page({}, {}, "run.db", runs);
  EXPECT_TRUE(read_page(page).nests);
  EXPECT_EQ(page.find("<figure"), std::string::npos);
  EXPECT_NE(page.find("Last loss"), std::string::npos);
  EXPECT_NE(page.find("0.250"), std::string::npos);
  EXPECT_NE(page.find("The log names no variant."), std::string::npos);
}

TEST(RunsPage, TakesNumbersThatAreNotFinite) {
  Runs runs;
  Training broken = training("broken");
  for (Curve& curve : broken.curves) {
    for (auto& point : curve.points) point.second = std::nan("");
  }
  broken.maps[0].snapshots[0].values = {{std::nan(""), std::nan("")}};
  broken.landscapes[0].values.assign(3, std::vector<double>(3, std::nan("")));
  runs.trainings.push_back(broken);
  std::string page = report_page({}, {}, "run.db", runs);
  EXPECT_TRUE(read_page(page).nests);
  EXPECT_EQ(page.find("nan"), std::string::npos);
  EXPECT_NE(page.find("not finite"), std::string::npos);
}

}  // namespace
}  // namespace clients
