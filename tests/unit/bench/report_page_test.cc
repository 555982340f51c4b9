// A report's page: if these fail it cannot be read without something else, says less than its
// records hold, or lets a name become markup.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "clients/report/page.h"
#include "common/base/cat.h"
#include "common/base/contains.h"
#include "tests/unit/bench/page_reader.h"

namespace clients {
namespace {

using common::cat;
using common::Record;

Record measured(const std::string& model, const std::string& backend, const std::string& dtype,
                int64_t batch, double ms, double error) {
  Record record;
  record.at_ns = 1'795'301'136'000'000'000;
  record.source = "test";
  record.machine = "host";
  record.device = "cpu-x86_64-avx512";
  record.backend = backend;
  record.model = model;
  record.dtype = dtype;
  record.batch = batch;
  record.latency = common::Latency{ms * 1e6, ms * 1e5, 9};
  record.error = common::OutputErrors{error, error};
  return record;
}

Record searched(const std::string& model, const char* strategy, int64_t budget, uint64_t seed,
                double ms) {
  Record record = measured(model, "lfarm", "f32", 1, 1, 0);
  record.latency.reset();
  record.error.reset();
  record.search = common::SearchPoint{strategy, budget, budget, seed, ms * 1e6, 8e6};
  return record;
}

std::vector<Record> sample() {
  std::vector<Record> records;
  for (const char* model : {"bert", "llama"}) {
    for (int64_t batch : {1, 8}) {
      records.push_back(measured(model, "lfarm", "f32", batch, 1.0 * batch, 1e-6));
      records.push_back(measured(model, "lfarm", "bf16", batch, 0.6 * batch, 1e-2));
      records.push_back(measured(model, "eager", "f32", batch, 1.5 * batch, 0));
      records.push_back(measured(model, "interpreter", "f32", batch, 40.0 * batch, 0));
    }
  }
  for (uint64_t seed : {1, 2, 3}) {
    for (int64_t budget : {10, 100}) {
      records.push_back(searched("llama", "guided", budget, seed, 2.0 + 10.0 / budget));
    }
  }
  records[0].gates = {{"outputs as PyTorch's", true, ""}};
  return records;
}

TEST(ReportPage, HasTheSectionsThatWereAskedFor) {
  Measured all = summarise(sample());
  std::string page = report_page(all, {parse_gate("latency_ms <= 1000").value()}, "records.db");
  size_t last = 0;
  for (const char* heading :
       {"<h1>lfarm measurements", ">Pass/fail gates<", ">Latency and error<", ">Ratio heat maps<",
        ">Precision against speed<", ">Search budget sweeps<"}) {
    size_t at = page.find(heading);
    ASSERT_NE(at, std::string::npos) << heading;
    EXPECT_GT(at, last) << heading;
    last = at;
  }
  Seen seen = read_page(page);
  EXPECT_TRUE(seen.nests);
  // 2 of 2: the gate that was given, and the recorded one.
  EXPECT_NE(seen.text.find("2 of 2 pass"), std::string::npos);
  EXPECT_TRUE(all_pass(all, {}));
  // A phone has no room for the column's title and names the value itself.
  EXPECT_NE(page.find("<td class=\"worst\">"), std::string::npos);
  EXPECT_NE(page.find(".gates .worst::before{content:\"worst: \""), std::string::npos);
  // A heat map of eager, of two models at two batches; the interpreter competes with nobody.
  EXPECT_NE(page.find("eager over lfarm on cpu-x86_64-avx512"), std::string::npos);
  EXPECT_NE(page.find("class=\"p2\">1.50\u00d7"), std::string::npos);
  EXPECT_EQ(page.find("interpreter over lfarm"), std::string::npos);
}

TEST(ReportPage, NeedsNothingElse) {
  std::string page = report_page(summarise(sample()), {}, "records.db");
  Seen seen = read_page(page);
  for (const char* element : {"script", "link", "img", "iframe", "object", "embed", "base", "form",
                              "image", "use", "foreignObject"}) {
    EXPECT_FALSE(common::contains(seen.elements, element)) << element;
  }
  for (const char* attribute : {"src", "href", "style", "onload", "onclick"}) {
    EXPECT_FALSE(common::contains(seen.attributes, attribute)) << attribute;
  }
  for (const char* word : {"http:", "https:", "url(", "@import"}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
  EXPECT_NE(page.find("default-src &#39;none&#39;"), std::string::npos);
}

TEST(ReportPage, HasATableBehindEveryFigureAndWordsForIt) {
  std::string page = report_page(summarise(sample()), {}, "records.db");
  Seen seen = read_page(page);
  auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = 0; (at = page.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  // Latency, error and precision on the one device, and one search.
  EXPECT_EQ(count("<figure>"), 4u);
  EXPECT_EQ(count("<details>"), 3u);
  EXPECT_GE(count("<table"), 5u);
  // Pictures either have words or are hidden beside their words; nested ones are parts.
  EXPECT_EQ(count("role=\"img\""), count("role=\"img\" aria-label=\""));
  EXPECT_EQ(count("aria-label=\"\""), 0u);
  EXPECT_EQ(count("<th"), count("<th scope=") + count("<thead>"));
  EXPECT_NE(seen.text.find("llama"), std::string::npos);
}

TEST(ReportPage, IsTheSameForTheSameRecords) {
  Measured all = summarise(sample());
  EXPECT_EQ(report_page(all, {}, "records.db"), report_page(summarise(sample()), {}, "records.db"));
}

TEST(ReportPage, NamesStayText) {
  const std::string hostile =
      "</td></style><script>alert(1)</script><img src=x onerror='a'>\"&amp;";
  std::vector<Record> records = sample();
  const size_t harmless = records.size();
  for (size_t k = 0; k < harmless; ++k) {
    Record record = records[k];
    record.model = hostile;
    record.backend = record.backend == "lfarm" ? "lfarm" : hostile;
    record.device = hostile;
    record.machine = hostile;
    record.sizes = hostile;
    record.dtype = hostile;
    if (record.search) record.search->strategy = hostile;
    record.gates = {{hostile, false, hostile}};
    ASSERT_TRUE(common::check_record(record).ok()) << check_record(record).error().message;
    records.push_back(record);
  }
  Measured all = summarise(records);
  Gate gate = parse_gate("latency_ms{model=<script>} <= 1").value();
  std::string page = report_page(all, {gate}, hostile);
  Seen seen = read_page(page);
  EXPECT_TRUE(seen.nests);
  EXPECT_FALSE(common::contains(seen.elements, "script"));
  EXPECT_FALSE(common::contains(seen.elements, "img"));
  EXPECT_FALSE(common::contains(seen.attributes, "onerror"));
  EXPECT_NE(page.find("&lt;script&gt;alert(1)"), std::string::npos);
  // The reader sees what was written, a reference included.
  EXPECT_NE(page.find("&quot;&amp;amp;"), std::string::npos);
  EXPECT_FALSE(all_pass(all, {}));
}

TEST(ReportPage, OfNothingSaysWhatToRun) {
  Measured nothing = summarise({});
  std::string page = report_page(nothing, {}, "my.db");
  EXPECT_TRUE(read_page(page).nests);
  EXPECT_NE(page.find("<code>lfarm check CASE... --record my.db</code>"), std::string::npos);
  EXPECT_EQ(page.find("<figure"), std::string::npos);
  EXPECT_TRUE(all_pass(nothing, {}));
  EXPECT_FALSE(all_pass(nothing, {parse_gate("latency_ms <= 1").value()}));
}

TEST(ReportPage, OfOneValueHasATableAndNoCharts) {
  for (const Record& one :
       {measured("m", "lfarm", "f32", 1, 1, 1e-6), searched("m", "farm", 8, 1, 2)}) {
    std::string page = report_page(summarise({one}), {}, "r.db");
    EXPECT_TRUE(read_page(page).nests);
    EXPECT_EQ(page.find("<figure"), std::string::npos);
    EXPECT_EQ(page.find("<details"), std::string::npos);
    EXPECT_NE(page.find("<bdi>m</bdi>"), std::string::npos);
  }
}

TEST(ReportPage, OneMeasurementIsEnough) {
  Record record = measured("m", "lfarm", "", 1, 1, 0);
  record.batch.reset();
  record.latency->spread_ns = 0;
  EXPECT_TRUE(read_page(report_page(summarise({record}), {}, "r.db")).nests);
  record.latency.reset();
  EXPECT_TRUE(read_page(report_page(summarise({record}), {}, "r.db")).nests);
  EXPECT_TRUE(read_page(report_page(summarise({searched("m", "", 0, 1, 1)}), {}, "r.db")).nests);
}

}  // namespace
}  // namespace clients
