// What lets a store of millions of entries answer at once: names, counts, collection beside puts,
// and stores of earlier releases brought to all that.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

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

// The store as the release before names left it.
void make_format_1(const std::string& directory) {
  auto database = must(Database::open(directory, {}));
  Batch batch;
  must(database->scan(Family::kPlans, {}, [&](std::string_view name, std::string_view record) {
    if (name.starts_with(kNamePrefix)) batch.remove(Family::kPlans, name);
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
