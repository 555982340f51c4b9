// What lets a store of millions of entries answer at once: names, counts, collection beside puts,
// and stores of earlier releases brought to all that.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/database.h"
#include "cache/store/records.h"
#include "common/base/contains.h"
#include "tests/unit/store/store_testing.h"

namespace cache {
namespace {

using common::cat;
using common::Digest;

class StoreScaleTest : public StoreTest {
 protected:
  NewPlan named_plan(int k, std::vector<Digest> names) {
    NewPlan plan = make_plan(cat("p", k), 10, {});
    plan.names = std::move(names);
    return plan;
  }
  // One after the other, in one write.
  void put_many(const std::string& name, int count) {
    std::vector<NewPlan> plans;
    for (int k = 0; k < count; ++k) plans.push_back(make_plan(cat(name, k), 10, {}));
    must(store_->put_plans_if_better(plans));
  }
  std::vector<Digest> named(const Digest& name) { return must(store_->plans_named(name)); }
  static std::vector<Digest> keys(std::vector<int> plans) {
    std::vector<Digest> all;
    for (int k : plans) all.push_back(key(cat("p", k)));
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(StoreScaleTest, PlansAreFoundByIdAndByName) {
  Digest shared = key("a plan key of two tenants"), own = key("own");
  must(store_->put_plan(named_plan(1, {shared})));
  must(store_->put_plan(named_plan(2, {shared, own})));
  EXPECT_EQ(named(shared), keys({1, 2}));
  EXPECT_EQ(named(own), keys({2}));
  Digest id = named_plan(2, {}).facts.plan_id;
  EXPECT_EQ(named(id), keys({2}));
  EXPECT_TRUE(named(key("nobody's")).empty());

  // A plan that takes the place of another one takes its names away.
  NewPlan renewed = make_plan("p2", 5, {}, "other bytes");
  must(store_->put_plan(renewed));
  EXPECT_EQ(named(shared), keys({1}));
  EXPECT_TRUE(named(own).empty());
  EXPECT_TRUE(named(id).empty());
  EXPECT_EQ(must(store_->revoke(renewed.facts.plan_id, "test")), 1u);
  EXPECT_TRUE(named(renewed.facts.plan_id).empty());
  EXPECT_TRUE(must(store_->remove_plan(key("p1"))));
  EXPECT_TRUE(named(shared).empty());
}

TEST_F(StoreScaleTest, RevokingFindsAllCopiesOfAPlan) {
  NewPlan first = named_plan(1, {}), second = named_plan(2, {});
  second.facts.plan_id = first.facts.plan_id;
  must(store_->put_plan(first));
  must(store_->put_plan(second));
  must(store_->put_plan(named_plan(3, {first.facts.plan_id})));  // made from it, not it
  EXPECT_EQ(must(store_->revoke(first.facts.plan_id, "test")), 2u);
  EXPECT_EQ(must(store_->list_plans()).size(), 1u);
}

TEST_F(StoreScaleTest, CountsOutliveTheProcess) {
  for (int k = 0; k < 20; ++k) {
    must(store_->put_measurement(key(cat("kernel", k % 10)), "cpu", {1.0 * k, 1, k}));
    must(store_->put_negative(key(cat("bad", k % 5)), {cat("reason ", k), 0}));
  }
  Changes changes;
  changes.measurements.push_back({key("kernel0"), "cpu", {1, 1, 1}});
  changes.measurements.push_back({key("kernel0"), "gpu", {1, 1, 1}});
  must(store_->commit({&changes, 1}));
  StoreStats before = must(store_->stats());
  EXPECT_EQ(before.measurements.count, 11u);
  EXPECT_EQ(before.negatives.count, 5u);
  uint64_t bytes = 0;
  must(store_->for_each_measurement(
      [&](const Digest&, std::string_view, const StoredMeasurement& measurement) {
        bytes += encode_measurement(measurement).size();
      }));
  EXPECT_EQ(before.measurements.bytes, bytes);
  reopen();
  StoreStats after = must(store_->stats());
  EXPECT_EQ(after.measurements.count, before.measurements.count);
  EXPECT_EQ(after.measurements.bytes, before.measurements.bytes);
  EXPECT_EQ(after.negatives.count, before.negatives.count);
  EXPECT_EQ(after.negatives.bytes, before.negatives.bytes);
}

TEST_F(StoreScaleTest, TheOldestMeasurementsGoFirst) {
  options_.max_measurements = 1000;
  reopen();
  // The newer half first: what was put late is not what is kept.
  for (int k = 1500; k > 0; --k) {
    must(store_->put_measurement(key(cat("kernel", k)), "cpu", {1, 1, k}));
  }
  EXPECT_LE(must(store_->stats()).measurements.count, 1000u);
  EXPECT_GE(must(store_->stats()).measurements.count, 900u);
  uint64_t count = 0;
  must(store_->for_each_measurement(
      [&](const Digest&, std::string_view, const StoredMeasurement&) { ++count; }));
  EXPECT_EQ(must(store_->stats()).measurements.count, count);
  EXPECT_TRUE(must(store_->get_measurement(key("kernel1500"), "cpu")).has_value());
  EXPECT_TRUE(must(store_->get_measurement(key("kernel1000"), "cpu")).has_value());
}

// Puts and questions go on while a thread of the store keeps to the bound; a plan that was kept has
// all its kernels as long as it is there.
TEST_F(StoreScaleTest, CollectionGoesOnBesidePuts) {
  options_.max_bytes = 200'000;
  options_.collects_in_background = true;
  options_.collects_at_once = 50;  // less than there is
  reopen();
  std::atomic<bool> stop{false};
  std::atomic<bool> torn{false};
  std::thread reader([&] {
    for (int k = 0; !stop; k = (k + 1) % 200) {
      auto bundle = must(store_->get_bundle(key(cat("p", k))));
      if (bundle && bundle->blobs.at(0) != noise(2'000, static_cast<uint64_t>(k / 2))) torn = true;
      // Who is told that a kernel is there may put a plan that needs it.
      std::string blob = noise(2'000, static_cast<uint64_t>(k / 2));
      if (!must(store_->has_blob(common::digest_of(blob)))) continue;
      auto put = store_->put_plan(make_plan(cat("q", k), 1, {common::digest_of(blob)}));
      if (!put.ok()) torn = true;
    }
  });
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 400; ++k) {
      auto blob = must(store_->put_blob(noise(2'000, static_cast<uint64_t>(k / 2))));
      must(store_->put_plan(make_plan(cat("p", k), 1, {blob})));
    }
    pass_ms(11 * 60 * 1000);  // from here on they wait for no plan
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(torn);
  must(store_->put_plan(make_plan("last", 1, {must(store_->put_blob("last"))})));
  auto is_bounded = [&] {
    auto stats = must(store_->stats());
    return stats.plans.bytes + stats.kernels.bytes <= 300'000;
  };
  for (int k = 0; k < 6000 && !is_bounded(); ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    must(store_->put_plan(make_plan(cat("more", k), 1, {})));
  }
  EXPECT_TRUE(is_bounded());
  EXPECT_TRUE(must(store_->get_plan(key("last"))).has_value());
}

// ---- Lists -------------------------------------------------------------------------------------

TEST_F(StoreScaleTest, PagesOfPlansBeginWithTheLatest) {
  for (int k = 0; k < 10; ++k) must(store_->put_plan(make_plan(cat("p", k), 10, {})));
  must(store_->put_plan(make_plan("p4", 5, {}, "better")));
  must(store_->remove_plan(key("p7")));
  std::vector<Digest> listed;
  std::string from;
  do {
    PlanPage page = must(store_->newest_plans(from, 4));
    EXPECT_LE(page.plans.size(), 4u);
    for (const PlanListing& plan : page.plans) listed.push_back(plan.facts.key);
    from = page.next;
  } while (!from.empty());
  std::vector<Digest> expected;
  for (int k : {4, 9, 8, 6, 5, 3, 2, 1, 0}) expected.push_back(key(cat("p", k)));
  EXPECT_EQ(listed, expected);
  PlanPage skipped = must(store_->newest_plans({}, 3, 7));
  ASSERT_EQ(skipped.plans.size(), 2u);
  EXPECT_EQ(skipped.plans[1].facts.key, key("p0"));
  EXPECT_TRUE(skipped.next.empty());
  for (const char* wrong : {"no page", "ab", "00112233445566778899"}) {
    auto refused = store_->newest_plans(wrong, 3);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, common::Code::kInvalidInput);
  }
}

TEST_F(StoreScaleTest, ListsSayHowOftenPlansWereUsed) {
  must(store_->put_plan(make_plan("p0", 10, {})));
  must(store_->put_plan(make_plan("p1", 10, {})));
  for (int k = 0; k < 3; ++k) must(store_->get_plan(key("p1")));
  for (bool is_written : {false, true}) {
    if (is_written) reopen();
    for (const PlanListing& plan : must(store_->newest_plans({}, 9)).plans) {
      EXPECT_EQ(plan.uses, plan.facts.key == key("p1") ? 3u : 0u);
    }
    for (const PlanListing& plan : must(store_->plans_after(std::nullopt, 9))) {
      EXPECT_EQ(plan.uses, plan.facts.key == key("p1") ? 3u : 0u);
      EXPECT_GE(plan.last_used_wall_ns, plan.created_wall_ns);
    }
  }
}

TEST_F(StoreScaleTest, APlanThatIsPutAnewWasUsedThen) {
  must(store_->put_plan(make_plan("p0", 10, {})));
  must(store_->get_plan(key("p0")));  // not written yet
  must(store_->put_plan(make_plan("p0", 5, {}, "better")));
  for (bool is_written : {false, true}) {
    if (is_written) reopen();
    PlanListing plan = must(store_->list_plans()).at(0);
    EXPECT_EQ(plan.last_used_wall_ns, plan.created_wall_ns);
    EXPECT_EQ(must(store_->newest_plans({}, 1)).plans.at(0).last_used_wall_ns,
              plan.created_wall_ns);
    EXPECT_EQ(plan.uses, 1u);
  }
}

// What a page takes does not depend on how many plans there are.
TEST_F(StoreScaleTest, APageReadsNoMoreThanItReturns) {
  auto reads = [](const std::function<void()>& body) {
    uint64_t before = records_read_by_this_thread();
    body();
    return records_read_by_this_thread() - before;
  };
  uint64_t few[3] = {}, many[3] = {};
  for (int plans : {50, 1'000}) {
    put_many("p", plans);
    uint64_t* counted = plans == 50 ? few : many;
    counted[0] = reads([&] { must(store_->newest_plans({}, 20)); });
    counted[1] = reads([&] { must(store_->plans_after(std::nullopt, 20)); });
    counted[2] = reads([&] {
      std::string digits = named_plan(7, {}).facts.plan_id.hex().substr(0, 12);
      EXPECT_EQ(must(store_->plans_beginning(digits, 20)).size(), 1u);
    });
  }
  for (int k = 0; k < 3; ++k) EXPECT_LE(many[k], few[k] + 2) << k;
}

// What is there throughout is listed once, whatever comes and goes meanwhile.
TEST_F(StoreScaleTest, ListsNeitherLoseNorDoubleWhilePlansComeAndGo) {
  constexpr int kStay = 3'000, kGo = 300;
  put_many("stays", kStay);
  put_many("goes", kGo);
  int changed = 0;
  auto come_and_go = [&] {
    if (changed >= kGo) return;
    must(store_->remove_plan(key(cat("goes", changed))));
    must(store_->put_plan(make_plan(cat("comes", changed++), 10, {})));
  };
  std::map<Digest, int> by_key, by_time;
  must(store_->for_each_plan([&](const PlanListing& plan) -> common::Status {
    ++by_key[plan.facts.key];
    come_and_go();
    return {};
  }));
  changed = 0;
  put_many("goes", kGo);
  std::string from;
  do {
    PlanPage page = must(store_->newest_plans(from, 100));
    for (const PlanListing& plan : page.plans) ++by_time[plan.facts.key];
    for (int k = 0; k < 40; ++k) come_and_go();
    from = page.next;
  } while (!from.empty());
  for (auto* listed : {&by_key, &by_time}) {
    for (int k = 0; k < kStay; ++k) EXPECT_EQ((*listed)[key(cat("stays", k))], 1) << k;
    for (const auto& [plan, times] : *listed) EXPECT_EQ(times, 1);
  }
}

TEST_F(StoreScaleTest, AnErrorOfTheVisitorEndsAList) {
  for (int k = 0; k < 5; ++k) must(store_->put_plan(make_plan(cat("p", k), 10, {})));
  int visited = 0;
  auto status = store_->for_each_plan([&visited](const PlanListing&) -> common::Status {
    return ++visited < 3 ? common::Status() : common::unavailable("enough");
  });
  EXPECT_EQ(visited, 3);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "enough");
}

TEST_F(StoreScaleTest, PlansAreFoundByTheFirstDigitsOfIdsNamesAndGraphs) {
  std::vector<NewPlan> plans;
  for (int k = 0; k < 300; ++k) plans.push_back(named_plan(k, {key(cat("name", k))}));
  must(store_->put_plans_if_better(plans));
  const NewPlan wanted = named_plan(17, {});
  for (const Digest& digest : {wanted.facts.plan_id, wanted.facts.graph_hash, key("name17")}) {
    // An odd number of digits, too.
    for (size_t digits : {11, 12, 64}) {
      auto found = must(store_->plans_beginning(digest.hex().substr(0, digits), 10));
      ASSERT_EQ(found.size(), 1u) << digits;
      EXPECT_EQ(found[0].facts.key, wanted.facts.key);
    }
  }
  EXPECT_EQ(must(store_->plans_beginning("", 1'000)).size(), 300u);
  EXPECT_EQ(must(store_->plans_beginning("", 10)).size(), 10u);
  size_t by_first_digit = 0;
  for (char digit : std::string_view("0123456789abcdef")) {
    auto found = must(store_->plans_beginning(std::string(1, digit), 1'000));
    by_first_digit += found.size();
    EXPECT_LT(found.size(), 300u);
  }
  EXPECT_GT(by_first_digit, 600u) << "each has an id, a name and a graph";
  EXPECT_TRUE(must(store_->plans_beginning(key("nobody's").hex(), 10)).empty());
  EXPECT_FALSE(store_->plans_beginning("xyz", 10).ok());
}

// ---- Earlier formats ---------------------------------------------------------------------------

// The store as the release before the order of creation left it.
void make_format_2(const std::string& directory) {
  auto database = must(Database::open(directory, {}));
  Batch batch;
  must(database->scan(Family::kPlans, kCreatedPrefix, [&](std::string_view name, std::string_view) {
    batch.remove(Family::kPlans, name);
    return true;
  }));
  std::string format;
  append_u32(format, 2);
  batch.put(Family::kMeta, kFormatKey, format);
  must(database->write(batch, true));
}

TEST_F(StoreScaleTest, AStoreWithoutTheOrderOfCreationIsBroughtForward) {
  constexpr int kPlans = 2'500;  // more than are read at a time
  put_many("p", kPlans);
  StoreStats before = must(store_->stats());
  store_.reset();
  make_format_2(directory());
  StoreOptions reader;
  reader.read_only = true;
  EXPECT_EQ(Store::open(directory(), reader).error().code, common::Code::kUnsupported);
  reopen();
  EXPECT_EQ(must(store_->stats()).plans.count, before.plans.count);
  EXPECT_EQ(must(store_->stats()).plans.bytes, before.plans.bytes);
  PlanPage all = must(store_->newest_plans({}, kPlans + 1));
  ASSERT_EQ(all.plans.size(), static_cast<size_t>(kPlans));
  EXPECT_EQ(all.plans.front().facts.key, key(cat("p", kPlans - 1)));
  EXPECT_EQ(all.plans.back().facts.key, key("p0"));
}

// The store as the release before names left it.
void make_format_1(const std::string& directory) {
  auto database = must(Database::open(directory, {}));
  Batch batch;
  must(database->scan(Family::kPlans, {}, [&](std::string_view name, std::string_view record) {
    if (name.starts_with(kNamePrefix) || name.starts_with(kCreatedPrefix)) {
      batch.remove(Family::kPlans, name);
    }
    auto header = decode_plan_header(record);
    if (!name.starts_with(kPlanPrefix) || !header) return true;
    std::string old(1, '\2');
    append_digest(old, header->graph_hash);
    append_digest(old, header->plan_id);
    append_u64(old, static_cast<uint64_t>(header->best_ns));
    append_u64(old, static_cast<uint64_t>(header->created_wall_ns));
    append_u64(old, static_cast<uint64_t>(header->search_ms));
    append_u32(old, static_cast<uint32_t>(header->needs.size()));
    append_u64(old, record.size() - header->size);
    for (const Need& need : header->needs) {
      append_digest(old, need.digest);
      append_u64(old, need.checksum);
    }
    old += record.substr(header->size);
    batch.put(Family::kPlans, name, old);
    return true;
  }));
  batch.remove(Family::kMeta, kSmallCountersKey);
  std::string format;
  append_u32(format, 1);
  batch.put(Family::kMeta, kFormatKey, format);
  must(database->write(batch, true));
}

TEST_F(StoreScaleTest, AStoreOfTheReleaseBeforeIsBroughtForward) {
  constexpr int kPlans = 700;  // more than are rewritten at a time
  for (int k = 0; k < kPlans; ++k) {
    auto blob = must(store_->put_blob(cat("kernel ", k)));
    must(store_->put_plan(make_plan(cat("p", k), 10 + k, {blob}, cat("plan ", k % 7))));
    must(store_->put_measurement(key(cat("kernel", k)), "cpu", {1, 1, 1}));
  }
  Digest revoked = make_plan("p3", 13, {}, "plan 3").facts.plan_id;
  must(store_->revoke(revoked, "test"));
  StoreStats before = must(store_->stats());
  store_.reset();
  make_format_1(directory());

  StoreOptions reader;
  reader.read_only = true;
  auto refused = Store::open(directory(), reader);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, common::Code::kUnsupported);

  options_.names_of = [](std::string_view bytes) { return std::vector<Digest>{key(bytes)}; };
  reopen();
  StoreStats after = must(store_->stats());
  EXPECT_EQ(after.plans.count, before.plans.count);
  EXPECT_EQ(after.measurements.count, before.measurements.count);
  EXPECT_EQ(after.measurements.bytes, before.measurements.bytes);
  EXPECT_EQ(named(key("plan 1")).size(), 100u);
  EXPECT_EQ(named(key("plan 3")).size(), 99u) << "one of them was revoked";
  EXPECT_EQ(must(store_->newest_plans({}, kPlans)).plans.size(), kPlans - 1u);
  for (int k : {0, 1, 2, 4, kPlans - 1}) {
    auto bundle = must(store_->get_bundle(key(cat("p", k))));
    ASSERT_TRUE(bundle.has_value()) << k;
    EXPECT_EQ(bundle->plan.bytes, cat("plan ", k % 7));
    EXPECT_EQ(bundle->plan.facts.best_ns, 10 + k);
    EXPECT_EQ(bundle->blobs.at(0), cat("kernel ", k));
    EXPECT_EQ(named(bundle->plan.facts.plan_id), keys({k}));
  }
  EXPECT_TRUE(must(store_->revocation(revoked)).has_value());
  // Done once.
  options_.names_of = [](std::string_view) -> std::vector<Digest> {
    throw std::runtime_error("asked again");
  };
  reopen();
  EXPECT_EQ(named(key("plan 1")).size(), 100u);
}

}  // namespace
}  // namespace cache
