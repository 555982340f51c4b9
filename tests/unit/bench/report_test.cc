// What goes into a report: if these fail, wrong measurements are taken in, or gates hold that
// don't.
#include <gtest/gtest.h>

#include "clients/report/gate.h"
#include "clients/report/import.h"
#include "clients/report/measured.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::Record;

constexpr int64_t kNow = 1'000'000'000;

std::vector<Record> parsed(const std::string& text) {
  auto records = parse_measurements(text, "m.json", kNow);
  EXPECT_TRUE(records.ok()) << records.error().message;
  return records.ok() ? *records : std::vector<Record>();
}

// The record of an eager run of a model, with more words before the end.
std::string line(const std::string& more) {
  return common::cat(R"({"device":"cpu","backend":"eager","model":"llama")", more, "}\n");
}

TEST(Import, TakesAllWords) {
  auto records = parsed(
      R"({"at":"2026-11-21T22:45:36Z","source":"bench.py","machine":"host","device":"cpu",)"
      R"("backend":"eager","model":"llama","sizes":"s0=4","batch":4,"dtype":"bf16",)"
      R"("latency_ms":1.5,"spread_ms":0.25,"runs":12,"error_abs":0.5,"error_rel":0.125,)"
      R"("strategy":"random","budget":10,"candidates":9,"seed":3,"best_ms":2,"baseline_ms":4,)"
      R"("gates":[{"name":"fast","passed":false,"detail":"1.5 > 1"}]})"
      "\n\n");
  ASSERT_EQ(records.size(), 1u);
  Record expected;
  expected.at_ns = 1'795'301'136'000'000'000;
  expected.source = "bench.py";
  expected.machine = "host";
  expected.device = "cpu";
  expected.backend = "eager";
  expected.model = "llama";
  expected.sizes = "s0=4";
  expected.batch = 4;
  expected.dtype = "bf16";
  expected.latency = common::Latency{1.5e6, 0.25e6, 12};
  expected.error = common::OutputErrors{0.5, 0.125};
  expected.search = common::SearchPoint{"random", 10, 9, 3, 2e6, 4e6};
  expected.gates = {{"fast", false, "1.5 > 1"}};
  EXPECT_EQ(records[0], expected);
}

TEST(Import, FillsInWhatIsNotSaid) {
  auto records = parsed(line(R"(,"latency_ms":2)"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].at_ns, kNow);
  EXPECT_EQ(records[0].source, "import");
  EXPECT_FALSE(records[0].batch);
  EXPECT_FALSE(records[0].error);
}

TEST(Import, NamesTheLineThatIsWrong) {
  const std::string good = line(R"(,"latency_ms":2)");
  std::vector<std::pair<std::string, std::string>> wrongs = {
      {"no json", "no JSON object"},
      {"[1]", "no JSON object"},
      {line(R"(,"latency_ms":2)") + "x", "no JSON object"},
      {line(""), "measures nothing"},
      {line(R"(,"latency_ms":"2")"), "\"latency_ms\" is not a number"},
      {line(R"(,"latency_ms":0)"), "latency is 0"},
      {line(R"(,"latency_ms":-1)"), "latency is -"},
      {line(R"(,"latency_ms":1e999)"), ""},
      {line(R"(,"latency_ms":1,"latency_ms":2)"), "comes twice"},
      {line(R"(,"latency_ms":1,"speed":2)"), "\"speed\" is no word"},
      {line(R"(,"latency_ms":1,"batch":1.5)"), "\"batch\" is not a whole number"},
      {line(R"(,"latency_ms":1,"batch":-1)"), "\"batch\" is not a whole number"},
      {line(R"(,"latency_ms":1,"batch":0)"), "batch is 0"},
      {line(R"(,"latency_ms":1,"at":"yesterday")"), "\"at\" is not a time"},
      {line(R"(,"latency_ms":1,"at":"2026-13-01T00:00:00Z")"), "\"at\" is not a time"},
      {line(R"(,"spread_ms":1,"error_abs":1,"error_rel":1)"), "needs \"latency_ms\""},
      {line(R"(,"error_rel":1)"), "needs \"error_abs\""},
      {line(R"(,"best_ms":1)"), "needs \"budget\""},
      {line(R"(,"latency_ms":1,"dtype":7)"), "\"dtype\" is not a text"},
      {line(R"(,"latency_ms":1,"sizes":"a\u0000b")"), "control character"},
      {line(R"(,"gates":{})"), "\"gates\" is not a list"},
      {line(R"(,"gates":[{"name":"x"}])"), "lacks its name"},
      {line(R"(,"gates":[{"name":"x","passed":1}])"), "true or false"},
      {R"({"backend":"eager","model":"llama","latency_ms":1})", "device is empty"},
      {line(",\"latency_ms\":1,\"machine\":\"" + std::string(kImportLineMax, 'x') + "\""),
       "longer than"},
  };
  for (const auto& [wrong, why] : wrongs) {
    auto records = parse_measurements(common::cat(good, "\n", wrong), "m.json", kNow);
    ASSERT_FALSE(records.ok()) << wrong;
    EXPECT_EQ(records.error().message.rfind("m.json, line ", 0), 0u) << records.error().message;
    EXPECT_NE(records.error().message.find(why), std::string::npos) << records.error().message;
  }
  auto empty = parse_measurements("\n \n", "m.json", kNow);
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.error().message.find("no measurement"), std::string::npos);
}

Record measured(const std::string& backend, double ms, int64_t at_ns = 1) {
  Record record;
  record.at_ns = at_ns;
  record.source = "test";
  record.device = "cpu";
  record.backend = backend;
  record.model = "llama";
  record.dtype = "f32";
  record.batch = 1;
  record.latency = common::Latency{ms * 1e6, 0, 3};
  return record;
}

const Cell& cell_of(const Measured& all, const std::string& backend) {
  for (const Cell& cell : all.cells) {
    if (cell.key.backend == backend) return cell;
  }
  ADD_FAILURE() << "nothing of " << backend;
  return all.cells.front();
}

TEST(Summary, TakesTheLatestOfEach) {
  Record error = measured("lfarm", 1, 4);
  error.latency.reset();
  error.error = common::OutputErrors{1e-3, 1e-4};
  Measured all =
      summarise({measured("lfarm", 5, 2), measured("lfarm", 4, 3), error, measured("lfarm", 9, 1)});
  ASSERT_EQ(all.cells.size(), 1u);
  EXPECT_EQ(all.cells[0].latency->median_ns, 4e6);
  EXPECT_EQ(all.cells[0].error->relative, 1e-4);
  EXPECT_EQ(all.cells[0].at_ns, 4);
  EXPECT_EQ(all.first_ns, 1);
  EXPECT_EQ(all.last_ns, 4);
}

TEST(Summary, ComparesWithTheFastestOther) {
  Record other_batch = measured("onnxruntime", 0.1);
  other_batch.batch = 2;
  Measured all = summarise({measured("lfarm", 2), measured("eager", 3), measured("inductor", 1),
                            measured(kInterpreter, 0.01), other_batch});
  EXPECT_DOUBLE_EQ(*cell_of(all, "lfarm").ratio, 0.5);
  EXPECT_DOUBLE_EQ(*cell_of(all, "inductor").ratio, 2);
  EXPECT_FALSE(cell_of(all, kInterpreter).ratio);
  EXPECT_FALSE(cell_of(all, "onnxruntime").ratio);
}

TEST(Summary, HoldsSearchesOfAModelAgainstItsBest) {
  auto search = [](const char* strategy, int64_t budget, uint64_t seed, double ns) {
    Record record = measured("lfarm", 1);
    record.latency.reset();
    record.search = common::SearchPoint{strategy, budget, budget, seed, ns, 400};
    return record;
  };
  Measured all = summarise({search("a", 100, 1, 110), search("a", 10, 1, 200),
                            search("b", 100, 1, 100), search("a", 100, 1, 120)});
  ASSERT_EQ(all.sweeps.size(), 2u);
  ASSERT_EQ(all.sweeps[0].points.size(), 2u);
  EXPECT_EQ(all.sweeps[0].points[0].budget, 10);
  EXPECT_EQ(all.sweeps[0].points[1].best_ns, 120);
  EXPECT_EQ(all.sweeps[0].least_ns, 100);
  auto gain = [&](const char* text) { return judge(parse_gate(text).value(), all); };
  EXPECT_TRUE(gain("gain{strategy=b} >= 4").passed);
  EXPECT_FALSE(gain("gain >= 3.4").passed);
  EXPECT_DOUBLE_EQ(gain("gain >= 3.4").worst, 400.0 / 120);
}

TEST(Gates, ReadWhatIsWritten) {
  auto gate = parse_gate(" error_rel{backend=lfarm, sizes=s0=4 }  <=1e-3 ");
  ASSERT_TRUE(gate.ok()) << gate.error().message;
  EXPECT_EQ(gate->metric, "error_rel");
  EXPECT_EQ(gate->only,
            (std::map<std::string, std::string>{{"backend", "lfarm"}, {"sizes", "s0=4"}}));
  EXPECT_EQ(gate->op, "<=");
  EXPECT_EQ(gate->limit, 1e-3);
  for (const char* wrong :
       {"", "speed <= 1", "latency_ms", "latency_ms <= ", "latency_ms <= fast", "latency_ms == 1",
        "latency_ms =< 1", "latency_ms{color=red} <= 1", "latency_ms{model} <= 1",
        "latency_ms{model=a <= 1", "latency_ms{model=a,model=b} <= 1", "latency_ms <= 1 2",
        "latency_ms <= 1e999", "gain{backend=lfarm} > 1", "latency_ms{strategy=a} > 1"}) {
    auto refused = parse_gate(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.error().code, common::Code::kInvalidInput);
  }
}

TEST(Gates, AFileNamesItsWrongLine) {
  auto gates = parse_gate_file("# all\nlatency_ms <= 5 # slow\n\nratio >= 1\n", "gates");
  ASSERT_TRUE(gates.ok()) << gates.error().message;
  ASSERT_EQ(gates->size(), 2u);
  EXPECT_EQ((*gates)[0].text, "latency_ms <= 5");
  auto wrong = parse_gate_file("latency_ms <= 5\nratio = 1\n", "gates");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message.rfind("gates, line 2: ", 0), 0u) << wrong.error().message;
}

TEST(Gates, HoldAtTheirLimitAsWritten) {
  Measured all = summarise({measured("lfarm", 2), measured("eager", 2)});
  auto passes = [&](const char* text) { return judge(parse_gate(text).value(), all).passed; };
  EXPECT_TRUE(passes("latency_ms <= 2"));
  EXPECT_FALSE(passes("latency_ms < 2"));
  EXPECT_TRUE(passes("latency_ms >= 2"));
  EXPECT_FALSE(passes("latency_ms > 2"));
  EXPECT_TRUE(passes("ratio{backend=lfarm} >= 1"));
  EXPECT_FALSE(passes("ratio{backend=lfarm} > 1"));
}

TEST(Gates, OneThatFailsFailsAllAndNothingIsNoPass) {
  Measured all = summarise({measured("lfarm", 2), measured("eager", 3)});
  GateVerdict verdict = judge(parse_gate("latency_ms <= 2.5").value(), all);
  EXPECT_FALSE(verdict.passed);
  EXPECT_EQ(verdict.met, 1u);
  EXPECT_EQ(verdict.asked, 2u);
  EXPECT_EQ(verdict.worst, 3);
  EXPECT_NE(verdict.where.find("eager"), std::string::npos) << verdict.where;
  GateVerdict nothing = judge(parse_gate("latency_ms{model=bert} <= 100").value(), all);
  EXPECT_FALSE(nothing.passed);
  EXPECT_EQ(nothing.asked, 0u);
  EXPECT_FALSE(judge(parse_gate("error_rel <= 1").value(), all).passed);
}

}  // namespace
}  // namespace clients
