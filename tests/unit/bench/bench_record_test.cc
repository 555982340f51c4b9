// What benchmarks print, as records: if these fail, 'lfarm-bench --record' keeps other numbers than
// it shows, or loses some.
#include <gtest/gtest.h>

#include <cstdio>

#include "common/base/files.h"
#include "common/records/database.h"
#include "tests/bench/record.h"

namespace bench {
namespace {

TEST(BenchRecords, OfASearchEachSeedAndBudgetIsOne) {
  auto records = records_of(
      "search",
      {R"({"graph":"mlp","strategy":"model","best_10":[20,30],"regret_10":1,"best_100":[10,15]})",
       R"({"sweep":"bert","ns_10":70,"ns_100":50,"worse":0})", R"({"sweep":"all","pairs":3})",
       R"({"device":"cpu-x","graph":"vit","strategy":"priors","candidates":64,"baseline_ns":80,"best_ns":40})",
       "no JSON", "[1]"},
      "host");
  ASSERT_EQ(records.size(), 7u);
  auto expect = [&](size_t k, const char* model, const char* device, common::SearchPoint point) {
    EXPECT_EQ(records[k].model, model);
    EXPECT_EQ(records[k].device, device);
    EXPECT_EQ(records[k].source, "lfarm-bench search");
    EXPECT_EQ(records[k].search, point);
  };
  expect(0, "mlp", "simulated", {"model", 10, 10, 1, 20, 0});
  expect(1, "mlp", "simulated", {"model", 10, 10, 2, 30, 0});
  expect(3, "mlp", "simulated", {"model", 100, 100, 2, 15, 0});
  expect(4, "bert", "simulated", {"sweep", 10, 10, 0, 70, 0});
  expect(6, "vit", "cpu-x", {"priors", 64, 64, 1, 40, 80});
}

TEST(BenchRecords, WhatFailedIsNone) {
  EXPECT_TRUE(
      records_of("search", {R"({"graph":"m","strategy":"s","candidates":3,"best_ns":0})"}, "host")
          .empty());
  EXPECT_TRUE(records_of("stages", {R"({"call_ns":3})"}, "host").empty());
}

TEST(BenchRecords, ARecordedRunPrintsWhatItWouldAndKeepsIt) {
  auto scratch = common::ScratchDirectory::create("lfarm-bench").value();
  std::string file = scratch.path() + "/m.db";
  testing::internal::CaptureStdout();
  int code = run_recorded("calls", file, [] {
    std::printf("{\"bench\":\"calls\",\"kernels\":3,\"call_ns\":70.5}\n");
    std::printf("a last line without an end");
    return 7;
  });
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "{\"bench\":\"calls\",\"kernels\":3,\"call_ns\":70.5}\na last line without an end");
  EXPECT_EQ(code, 7);
  auto kept = common::RecordDatabase::open(file, common::RecordDatabase::Access::kRead)->read_all();
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  ASSERT_EQ(kept->size(), 1u);
  EXPECT_EQ((*kept)[0].latency->median_ns, 70.5);
}

TEST(BenchRecords, RecordIsTakenOutOfTheArguments) {
  std::vector<std::string> arguments{"--kernels", "3", "--record", "m.db", "-x"};
  EXPECT_EQ(take_record_option(&arguments), "m.db");
  EXPECT_EQ(arguments, (std::vector<std::string>{"--kernels", "3", "-x"}));
  EXPECT_EQ(take_record_option(&arguments), "");
}

}  // namespace
}  // namespace bench
