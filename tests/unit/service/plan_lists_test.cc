// Lists of a farm's plans: if these fail, a client sees another tenant's plans, misses some of its
// own, or a farm of millions of plans reads them all for one list.
#include "coordinator/service/jobs/plan_lists.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/plan/seal.h"
#include "common/wire/plan_names.h"
#include "tests/unit/clients/sealed_plan.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::Digest;
using common::digest_of;
using Json = nlohmann::ordered_json;

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}

const common::Principal kAdministrator{"ops", static_cast<uint8_t>(common::Role::kAdmin)};
const common::Principal kTeam{"team", static_cast<uint8_t>(common::Role::kRead)};

class PlanListsTest : public testing::Test {
 protected:
  PlanListsTest() {
    for (const char* object : {"object0", "object1"}) must(store_->put_blob(object));
  }
  // Plans of the tenant, in one write, each later than the one before.
  void put(const std::string& tenant, int count) {
    std::vector<cache::NewPlan> plans;
    for (int k = 0; k < count; ++k) {
      common::Plan plan = common::chain_plan(2);
      plan.key.graph_hash = digest_of(cat(tenant, k));
      cache::NewPlan& kept = plans.emplace_back();
      auto sealed = common::encode_sealed(common::seal(key_, tenant, plan));
      kept.facts = {common::place_of(tenant, plan.key.digest()), plan.key.graph_hash,
                    digest_of(sealed), 1'000, 1};
      kept.bytes = common::as_text(sealed);
      kept.needs = plan.objects;
      kept.names = common::plan_names(kept.bytes);
      last_key_ = plan.key.digest();
    }
    if (!store_->put_plans_if_better(plans).ok()) throw std::runtime_error("plans are not kept");
  }
  Json page(const common::Principal& who, const std::string& begins, const std::string& after) {
    return Json::parse(must(plan_list_json(*store_, who, begins, after)));
  }
  // Graphs by how often pages name them.
  std::map<std::string, int> all_pages(const common::Principal& who, int* pages) {
    std::map<std::string, int> graphs;
    std::string after;
    *pages = 0;
    do {
      Json list = page(who, "", after);
      EXPECT_LE(list["plans"].size(), kPlansListedMax);
      for (const Json& row : list["plans"]) ++graphs[row["graph_hash"].get<std::string>()];
      after = list.value("next", "");
      ++*pages;
    } while (!after.empty());
    return graphs;
  }

  common::ScratchDirectory folder_ = must(common::ScratchDirectory::create("lists"));
  std::unique_ptr<cache::Store> store_ = must(cache::Store::open(folder_.path(), {}));
  common::SigningKey key_ = must(common::load_or_create_signing_key(folder_.path() + "/key"));
  Digest last_key_;
};

TEST_F(PlanListsTest, ShortListsAreWhole) {
  put("team", 3);
  put("other", 2);
  Json all = page(kAdministrator, "", "");
  EXPECT_EQ(all["total"], 5);
  EXPECT_EQ(all["plans"].size(), 5U);
  EXPECT_FALSE(all.contains("next"));
  EXPECT_EQ(all["plans"][0]["graph_hash"], digest_of("other1").hex()) << "the latest is not first";
  Json own = page(kTeam, "", "");
  EXPECT_EQ(own["total"], 3);
  ASSERT_EQ(own["plans"].size(), 3U);
  for (const Json& row : own["plans"]) EXPECT_EQ(row["tenant"], "team");
}

TEST_F(PlanListsTest, PagesNameEachPlanOnce) {
  constexpr int kPlans = 2'300;
  put("team", kPlans);
  put("other", 1'200);
  int pages = 0;
  auto graphs = all_pages(kTeam, &pages);
  EXPECT_EQ(graphs.size(), static_cast<size_t>(kPlans));
  for (const auto& [graph, times] : graphs) EXPECT_EQ(times, 1);
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(all_pages(kAdministrator, &pages).size(), static_cast<size_t>(kPlans + 1'200));
  EXPECT_EQ(page(kAdministrator, "", "")["total"], kPlans + 1'200);
  EXPECT_FALSE(page(kTeam, "", "").contains("total")) << "to count them all are read";
}

TEST_F(PlanListsTest, PlansAreFoundByDigits) {
  put("team", 20);
  put("other", 20);
  const std::string graph = digest_of("team7").hex();
  Json found = page(kTeam, graph.substr(0, 11), "");
  ASSERT_EQ(found["plans"].size(), 1U);
  EXPECT_EQ(found["plans"][0]["graph_hash"], graph);
  EXPECT_EQ(page(kTeam, digest_of("other7").hex().substr(0, 11), "")["total"], 0);
  // By its key, where no id and no graph begins so.
  EXPECT_EQ(page(kAdministrator, last_key_.hex().substr(0, 11), "")["total"], 1);
  EXPECT_EQ(page(kTeam, last_key_.hex().substr(0, 11), "")["total"], 0);
}

TEST_F(PlanListsTest, NonsenseIsRefused) {
  put("team", 1);
  for (const auto& [begins, after] : {std::pair("xyz", ""), std::pair("", "nowhere")}) {
    auto refused = plan_list_json(*store_, kTeam, begins, after);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, common::Code::kInvalidInput);
  }
}

}  // namespace
}  // namespace coordinator::service
