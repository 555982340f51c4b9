// Models that share structure: if these fail, whoever changes a model's depth or head pays for a
// whole search again, or gets another model's plan.
#include <nlohmann/json.hpp>

#include "tests/farm/cli/cli_testing.h"
#include "tests/paths/paths.h"

namespace {

using Json = nlohmann::json;

class ReuseTest : public cli_testing::CliTest {
 protected:
  static std::string member(const std::string& name) {
    return paths::fixtures("/family/") + name + ".pt2";
  }
  Json submit(const std::string& model, const std::string& budget = "32") {
    auto run = lfarm({"submit", model, "--budget", budget, "--json"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    Json result = Json::parse(run.out(), nullptr, false);
    EXPECT_TRUE(result.is_object()) << run.out();
    return result;
  }
};

// Each submit starts a farm and stops it again: what is found lies in the store.
TEST_F(ReuseTest, AModelOfTwiceTheDepthIsHardlySearched) {
  Json first = submit(member("shallow"));
  EXPECT_EQ(first["cache"], "miss");
  EXPECT_EQ(first["reuse"]["kernels_found"], 0);
  EXPECT_EQ(first["reuse"]["regions_found"], 0);
  EXPECT_EQ(first["reuse"]["saved_s"], 0.0);
  EXPECT_GT(first["reuse"]["worker_s"], 0.0);

  Json deep = submit(member("deep"));
  EXPECT_EQ(deep["cache"], "partial");
  EXPECT_NE(deep["graph_hash"], first["graph_hash"]);
  const Json& reuse = deep["reuse"];
  EXPECT_GT(reuse["kernels"], 0);
  EXPECT_GE(10 * reuse["kernels_found"].get<int>(), 9 * reuse["kernels"].get<int>()) << deep;
  EXPECT_EQ(reuse["regions_found"], reuse["regions"]) << deep;
  EXPECT_LE(5 * deep["candidates"].get<int>(), first["candidates"].get<int>()) << deep;
  EXPECT_GT(reuse["saved_s"], 0.0);

  Json again = submit(member("deep"));
  EXPECT_EQ(again["cache"], "hit");
  EXPECT_EQ(again["plan"], deep["plan"]);
  EXPECT_EQ(again["reuse"]["worker_s"], 0.0);
}

TEST_F(ReuseTest, AnotherHeadOnTheSameLayersFindsTheLayers) {
  Json first = submit(member("shallow"));
  Json head = submit(member("head"));
  EXPECT_EQ(head["cache"], "partial");
  EXPECT_GT(head["reuse"]["regions_found"], 0) << head;
  EXPECT_LT(head["reuse"]["regions_found"], head["reuse"]["regions"]) << head;
  EXPECT_GE(2 * head["reuse"]["kernels_found"].get<int>(), head["reuse"]["kernels"].get<int>())
      << head;
  EXPECT_LT(head["candidates"], first["candidates"]) << head;
}

// A larger budget is not answered with what a smaller one came to.
TEST_F(ReuseTest, WhoeverSpendsMoreSearchesOn) {
  submit(member("shallow"), "6");
  Json deep = submit(member("deep"), "24");
  EXPECT_EQ(deep["cache"], "partial");
  EXPECT_LT(deep["reuse"]["regions_found"], deep["reuse"]["regions"]) << deep;
  EXPECT_GT(deep["candidates"], 6) << deep;
}

// What made a plan wrong may be in any of its parts.
TEST_F(ReuseTest, AfterARevocationTheSearchBeginsAnew) {
  Json first = submit(member("shallow"), "6");
  auto revoke = lfarm({"cache", "revoke", first["plan"].get<std::string>()});
  ASSERT_EQ(revoke.wait(), 0) << revoke.err();
  Json again = submit(member("shallow"), "6");
  EXPECT_EQ(again["reuse"]["regions_found"], 0) << again;
  EXPECT_EQ(again["candidates"], first["candidates"]);
}

// No size of the batch is in the cache, and the plan found for it is its own.
TEST_F(ReuseTest, AnotherBatchIsAnotherModel) {
  Json first = submit(member("shallow"), "6");
  Json batch = submit(member("batch"), "6");
  EXPECT_NE(batch["cache"], "hit");
  EXPECT_NE(batch["graph_hash"], first["graph_hash"]);
  EXPECT_NE(batch["plan"], first["plan"]);
}

TEST_F(ReuseTest, PeopleAreToldWhatWasFound) {
  submit(member("shallow"), "6");
  auto run = lfarm({"submit", member("deep"), "--budget", "6"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  EXPECT_NE(run.out().find("cache       partial\n"), std::string::npos) << run.out();
  EXPECT_NE(run.out().find(" kernels, "), std::string::npos) << run.out();
  EXPECT_NE(run.out().find(" regions\n"), std::string::npos) << run.out();
  EXPECT_NE(run.out().find("workers     "), std::string::npos) << run.out();
}

}  // namespace
