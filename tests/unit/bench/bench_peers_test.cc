// Reports of `lfarm-bench models`: if these fail, a ratio against a badly set-up peer is published.
#include <gtest/gtest.h>

#include "clients/score/model_work.h"
#include "common/ir/hlir/text.h"
#include "tests/bench/peers_report.h"

namespace bench {
namespace {

using namespace clients;  // NOLINT: a test's own vocabulary

// ---- Ratios and reports ------------------------------------------------------------------------

TEST(PeersReport, TheReferenceBlasAndScalarsGiveNoRatio) {
  PeerFacts facts;
  facts.blas = "OpenBLAS";
  facts.capability = "AVX512";
  EXPECT_EQ(refusal_of(facts, true), "");
  facts.capability = "DEFAULT";
  EXPECT_NE(refusal_of(facts, true).find("vectors"), std::string::npos);
  EXPECT_EQ(refusal_of(facts, false), "");
  facts.capability = "AVX512";
  facts.blas = "reference";
  facts.blas_path = "/usr/lib/libblas.so.3";
  EXPECT_NE(refusal_of(facts, true).find("reference BLAS (/usr/lib/libblas.so.3)"),
            std::string::npos);
  facts.blas = "unknown";
  EXPECT_NE(refusal_of(facts, true).find("not known"), std::string::npos);
  facts.blas = "";
  EXPECT_NE(refusal_of(facts, true).find("not known"), std::string::npos);
  facts.blas = "MLAS";
  facts.capability = "";
  EXPECT_EQ(refusal_of(facts, true), "");
}

SideResult side(const std::string& name, std::vector<double> us) {
  return {name, us, "", "", true};
}

// Reads of 8 MB at 1 GB/s: 8 ms at least.
ModelRow row(const std::string& model, const std::string& dtype, double lfarm_us) {
  return {model,
          dtype,
          2,
          {side("lfarm", {lfarm_us}), side("eager", {20'000, 10'000, 90'000})},
          {1e6, 8e6, 1e9, 1e9},
          ""};
}

std::vector<ModelRow> rows() {
  std::vector<ModelRow> all = {row("a", "f32", 10'000), row("b", "f32", 40'000),
                               row("c", "f32", 10'000), row("d", "bf16", 10'000)};
  all[0].sides.push_back(side("onnxruntime", {16'000}));
  all[1].sides.push_back({"onnxruntime", {}, "", "onnxruntime: no answer within 5 s", true});
  all[2].problem = "lfarm's outputs are not PyTorch's: output 0";
  all[3].sides[1].competes = false;
  all[3].sides[1].note = "eager: computes products with the reference BLAS";
  return all;
}

TEST(PeersReport, RatiosAreToTheFastestThatCompetes) {
  std::vector<ModelRow> all = rows();
  EXPECT_EQ(median_ms(all[0].sides[1]), 20.0);
  EXPECT_EQ(spread_ms(all[0].sides[1]), 40.0);
  EXPECT_EQ(best_peer(all[0])->name, "onnxruntime");
  EXPECT_DOUBLE_EQ(*ratio_to_best(all[0]), 1.6);
  EXPECT_DOUBLE_EQ(*ratio_to_best(all[1]), 0.5);
  EXPECT_EQ(ratio_to_best(all[2]), std::nullopt) << "a wrong result has no ratio";
  EXPECT_EQ(ratio_to_best(all[3]), std::nullopt) << "a refused peer gives none";
  EXPECT_DOUBLE_EQ(*roofline_share(all[0], all[0].sides[0]), 0.8);
  EXPECT_TRUE(all[0].bound.is_reads());
  EXPECT_FALSE((RowBound{9e6, 8e6, 1e9, 1e9}.is_reads()));
  std::vector<Summary> summaries = summaries_of(all);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].rows, 2);
  EXPECT_NEAR(summaries[0].geomean, 0.8944, 1e-4);
  EXPECT_EQ(summaries[0].below, 1);
  EXPECT_EQ(summaries[0].failed, 1);
  EXPECT_EQ(summaries[1].rows, 0);
}

TEST(PeersReport, TheTableSaysWhatIsWrong) {
  EXPECT_EQ(
      table_of(rows()),
      "model  dtype  threads  lfarm ms  eager ms  onnxruntime ms       ratio to best  least ms  "
      "bound  lfarm of roofline  eager of roofline  onnxruntime of roofline\n"
      "a      f32          2      10.0      20.0            16.0  1.60 (onnxruntime)      8.00  "
      "reads               0.80               0.40                     0.50\n"
      "b      f32          2      40.0      20.0               -        0.50 (eager)      8.00  "
      "reads               0.20               0.40                        -\n"
      "c      f32          2     10.0*      20.0               -                   -      8.00  "
      "reads               0.80               0.40                        -\n"
      "d      bf16         2      10.0     20.0*               -                   -      8.00  "
      "reads               0.80               0.40                        -\n"
      "  onnxruntime: no answer within 5 s [b x2]\n"
      "  FAILED: lfarm's outputs are not PyTorch's: output 0 [c x2]\n"
      "  eager: computes products with the reference BLAS [d x2]\n"
      "f32: geometric mean 0.89 of 2 rows, 1 below 0.9, 1 failed\n"
      "bf16: no ratio\n");
}

TEST(PeersReport, MarkdownAndJsonHoldTheSame) {
  std::string text = markdown_of({rows()[0]}, {"a machine", "a peer"});
  EXPECT_EQ(
      text,
      "- a machine\n- a peer\n\n"
      "| model | dtype | threads | lfarm ms | eager ms | onnxruntime ms | ratio to best | "
      "least ms | bound | lfarm of roofline | eager of roofline | onnxruntime of roofline |\n"
      "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
      "| a | f32 | 2 | 10.0 | 20.0 | 16.0 | 1.60 (onnxruntime) | 8.00 | reads | 0.80 | 0.40 | "
      "0.50 |\n\n"
      "- **f32: geometric mean 1.60 of 1 row, 0 below 0.9**\n");
  EXPECT_EQ(json_of(rows()[1]),
            R"({"bench":"models","model":"b","dtype":"f32","threads":2,"lfarm_ms":40.0,)"
            R"("lfarm_spread_ms":0.0,"lfarm_roofline":0.2,"eager_ms":20.0,"eager_spread_ms":40.0,)"
            R"("eager_roofline":0.4,"onnxruntime_ms":null,)"
            R"("notes":{"onnxruntime":"onnxruntime: no answer within 5 s"},"best_peer":"eager",)"
            R"("ratio_to_best":0.5,"operations":1000000.0,"bytes":8000000.0,)"
            R"("operations_per_s":1000000000.0,"bytes_per_s":1000000000.0,"least_ms":8.0,)"
            R"("bound":"reads"})");
  EXPECT_EQ(json_of(summaries_of(rows())[1]),
            R"({"bench":"models","summary":"bf16","rows":0,"geomean":null,"below_0_9":0,)"
            R"("failed":0})");
}

// ---- The least work ----------------------------------------------------------------------------

TEST(ModelWork, CountsProductsAndWhatMustBeRead) {
  auto graph = common::parse_graph(
      "input weight f32[100, 8] \"table\"\n"
      "input weight f32[4, 8] \"w\"\n"
      "input user i64[3] \"ids\"\n"
      "%0 = input f32[100, 8] position=0 ()\n"
      "%1 = input f32[4, 8] position=1 ()\n"
      "%2 = input i64[3] position=2 ()\n"
      "%3 = view i64[3, 8] index=[i0] (%2)\n"
      "%4 = gather f32[3, 8] at=[@0, i1] (%0 %3)\n"
      "%5 = view f32[3, 4, 8] index=[i0, i2] (%4)\n"
      "%6 = view f32[3, 4, 8] index=[i1, i2] (%1)\n"
      "%7 = binary.mul f32[3, 4, 8] (%5 %6)\n"
      "%8 = reduce.sum f32[3, 4] axes=[2] (%7)\n"
      "output %8\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  clients::ModelWork work = clients::work_of(*graph, {});
  EXPECT_EQ(work.operations, 2 * 3 * 4 * 8);
  // Three rows of the table, the weights, three indices, twelve results.
  EXPECT_EQ(work.bytes, 3 * 8 * 4 + 4 * 8 * 4 + 3 * 8 + 12 * 4);
}

// Of a model in bfloat16 with one input in float32, as rotary tables are.
TEST(ModelWork, ProductsOf16BitsAreToldFromOthers) {
  auto graph = common::parse_graph(
      "input weight bf16[4, 8] \"w\"\n"
      "input user bf16[3, 8] \"x\"\n"
      "input user f32[3, 5] \"table\"\n"
      "%0 = input bf16[4, 8] position=0 ()\n"
      "%1 = input bf16[3, 8] position=1 ()\n"
      "%2 = input f32[3, 5] position=2 ()\n"
      "%3 = cast f32[4, 8] (%0)\n"
      "%4 = cast f32[3, 8] (%1)\n"
      "%5 = view f32[3, 4, 8] index=[i0, i2] (%4)\n"
      "%6 = view f32[3, 4, 8] index=[i1, i2] (%3)\n"
      "%7 = binary.mul f32[3, 4, 8] (%5 %6)\n"
      "%8 = reduce.sum f32[3, 4] axes=[2] (%7)\n"
      "%9 = view f32[4, 5, 3] index=[i2, i0] (%8)\n"
      "%10 = view f32[4, 5, 3] index=[i2, i1] (%2)\n"
      "%11 = binary.mul f32[4, 5, 3] (%9 %10)\n"
      "%12 = reduce.sum f32[4, 5] axes=[2] (%11)\n"
      "output %12\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  clients::ModelWork work = clients::work_of(*graph, {});
  EXPECT_EQ(work.half_operations, 2 * 3 * 4 * 8);
  EXPECT_EQ(work.operations, work.half_operations + 2 * 4 * 5 * 3);
}

TEST(ModelWork, ATransformCountsAsAFastOne) {
  auto graph = common::parse_graph(
      "input user f32[2, 1024] \"x\"\n"
      "%0 = input f32[2, 1024] position=0 ()\n"
      "%1 = iota f32[1024] ()\n"
      "%2 = unary.cos f32[1024] (%1)\n"
      "%3 = view f32[2, 16, 1024] index=[i0, i2] (%0)\n"
      "%4 = view f32[2, 16, 1024] index=[i2] (%2)\n"
      "%5 = binary.mul f32[2, 16, 1024] (%3 %4)\n"
      "%6 = reduce.sum f32[2, 16] axes=[2] (%5)\n"
      "output %6\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(clients::work_of(*graph, {}).operations, 2 * 16 * 2.5 * 10);
}

}  // namespace
}  // namespace bench
