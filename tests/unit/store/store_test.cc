#include <algorithm>
#include <atomic>
#include <thread>

#include "store_testing.h"

namespace cache {
namespace {

using common::Code;
using common::digest_of;

TEST_F(StoreTest, BlobsAreAddressedByTheirDigest) {
  std::string bytes = noise(5000, 1);
  auto digest = must(store_->put_blob(bytes));
  EXPECT_EQ(digest, digest_of(bytes));
  EXPECT_EQ(must(store_->put_blob(bytes)), digest);
  EXPECT_EQ(must(store_->stats()).kernels.count, 1u);
  EXPECT_EQ(must(store_->stats()).kernels.bytes, 5000u);
  reopen();
  EXPECT_EQ(must(store_->get_blob(digest)), bytes);
  EXPECT_TRUE(must(store_->has_blob(digest)));
  EXPECT_EQ(must(store_->get_blob(key("absent"))), std::nullopt);
  EXPECT_FALSE(must(store_->has_blob(key("absent"))));
  auto empty = must(store_->put_blob(""));
  EXPECT_EQ(must(store_->get_blob(empty)), "");
}

TEST_F(StoreTest, PlanRoundTripsThroughReopening) {
  auto a = must(store_->put_blob("kernel a"));
  auto b = must(store_->put_blob("kernel b"));
  NewPlan plan = make_plan("p", 1234, {a, b}, noise(3000, 7));
  must(store_->put_plan(plan));
  reopen();
  auto stored = must(store_->get_plan(plan.facts.key));
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->bytes, plan.bytes);
  EXPECT_EQ(stored->needs, plan.needs);
  EXPECT_EQ(stored->facts.key, plan.facts.key);
  EXPECT_EQ(stored->facts.graph_hash, plan.facts.graph_hash);
  EXPECT_EQ(stored->facts.plan_id, plan.facts.plan_id);
  EXPECT_EQ(stored->facts.best_ns, 1234);
  EXPECT_GT(stored->created_wall_ns, 0);
  auto bundle = must(store_->get_bundle(plan.facts.key));
  ASSERT_TRUE(bundle.has_value());
  EXPECT_EQ(bundle->plan.bytes, plan.bytes);
  EXPECT_EQ(bundle->blobs, (std::vector<std::string>{"kernel a", "kernel b"}));
  EXPECT_EQ(must(store_->get_plan(key("absent"))).has_value(), false);
}

TEST_F(StoreTest, PlanIsRefusedUntilAllItsBlobsAreThere) {
  auto a = must(store_->put_blob("kernel a"));
  NewPlan plan = make_plan("p", 10, {a, digest_of("kernel b")});
  auto refused = store_->put_plan(plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidInput);
  EXPECT_NE(refused.error().message.find(digest_of("kernel b").short_hex()), std::string::npos);
  EXPECT_FALSE(must(store_->get_plan(plan.facts.key)).has_value());
  must(store_->put_blob("kernel b"));
  must(store_->put_plan(plan));
  EXPECT_TRUE(must(store_->get_plan(plan.facts.key)).has_value());
}

TEST_F(StoreTest, CompareAndSetKeepsTheFasterPlan) {
  EXPECT_TRUE(must(store_->put_plan_if_better(make_plan("p", 100, {}, "slow"))));
  EXPECT_FALSE(must(store_->put_plan_if_better(make_plan("p", 100, {}, "equal"))));
  EXPECT_FALSE(must(store_->put_plan_if_better(make_plan("p", 200, {}, "slower"))));
  EXPECT_EQ(must(store_->get_plan(key("p")))->bytes, "slow");
  EXPECT_TRUE(must(store_->put_plan_if_better(make_plan("p", 50, {}, "fast"))));
  reopen();
  EXPECT_FALSE(must(store_->put_plan_if_better(make_plan("p", 60, {}, "between"))));
  EXPECT_EQ(must(store_->get_plan(key("p")))->bytes, "fast");
  EXPECT_EQ(must(store_->stats()).plans.count, 1u);
  auto unmeasured = store_->put_plan_if_better(make_plan("p", 0, {}));
  ASSERT_FALSE(unmeasured.ok());
  EXPECT_EQ(unmeasured.error().code, Code::kInvalidInput);
  // A plan whose time is unknown gives way to a measured one.
  must(store_->put_plan(make_plan("q", 0, {}, "unknown")));
  EXPECT_TRUE(must(store_->put_plan_if_better(make_plan("q", 999, {}, "known"))));
}

TEST_F(StoreTest, PlansAreFoundByGraph) {
  NewPlan cpu = make_plan("cpu", 1, {});
  NewPlan gpu = make_plan("gpu", 1, {});
  gpu.facts.graph_hash = cpu.facts.graph_hash;
  must(store_->put_plan(cpu));
  must(store_->put_plan(gpu));
  must(store_->put_plan(make_plan("other", 1, {})));
  auto found = must(store_->plans_of_graph(cpu.facts.graph_hash));
  std::sort(found.begin(), found.end());
  std::vector<common::Digest> expected{cpu.facts.key, gpu.facts.key};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  // A plan that comes back under the same key with another graph leaves no stale index entry.
  gpu.facts.graph_hash = key("new graph");
  must(store_->put_plan(gpu));
  EXPECT_EQ(must(store_->plans_of_graph(cpu.facts.graph_hash)),
            std::vector<common::Digest>{cpu.facts.key});
  EXPECT_TRUE(must(store_->remove_plan(cpu.facts.key)));
  EXPECT_FALSE(must(store_->remove_plan(cpu.facts.key)));
  EXPECT_TRUE(must(store_->plans_of_graph(cpu.facts.graph_hash)).empty());
}

TEST_F(StoreTest, ListingShowsSizeTimeAndLastUse) {
  auto blob = must(store_->put_blob("kernel"));
  must(store_->put_plan(make_plan("p", 77, {blob}, "12345")));
  auto created = must(store_->list_plans());
  ASSERT_EQ(created.size(), 1u);
  EXPECT_EQ(created[0].facts.key, key("p"));
  EXPECT_EQ(created[0].facts.best_ns, 77);
  EXPECT_EQ(created[0].bytes, 5u);
  EXPECT_EQ(created[0].needs, 1u);
  EXPECT_EQ(created[0].last_used_wall_ns, created[0].created_wall_ns);
  must(store_->get_plan(key("p")));
  int64_t used = must(store_->list_plans())[0].last_used_wall_ns;
  EXPECT_GT(used, created[0].created_wall_ns);
  reopen();
  EXPECT_EQ(must(store_->list_plans())[0].last_used_wall_ns, used);
}

TEST_F(StoreTest, RevokedPlansGoAndStayAway) {
  NewPlan bad = make_plan("p", 10, {}, "bad");
  must(store_->put_plan(bad));
  must(store_->put_plan(make_plan("q", 10, {}, "another")));
  EXPECT_EQ(must(store_->revoke(bad.facts.plan_id, "wrong on bf16")), 1u);
  EXPECT_FALSE(must(store_->get_plan(key("p"))).has_value());
  EXPECT_TRUE(must(store_->get_plan(key("q"))).has_value());
  reopen();
  auto refused = store_->put_plan_if_better(bad);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kVerification);
  EXPECT_NE(refused.error().message.find("wrong on bf16"), std::string::npos);
  EXPECT_EQ(must(store_->revocation(bad.facts.plan_id)), "wrong on bf16");
  must(store_->put_plan(make_plan("p", 20, {}, "good")));
  EXPECT_EQ(must(store_->get_plan(key("p")))->bytes, "good");
  EXPECT_EQ(must(store_->revocation(make_plan("p", 20, {}, "good").facts.plan_id)), std::nullopt);
}

TEST_F(StoreTest, AMeasurementIsNeverTakenTwice) {
  StoredMeasurement first{12.5, 30, 99};
  EXPECT_EQ(must(store_->get_measurement(key("k"), "cpu avx2")), std::nullopt);
  EXPECT_TRUE(must(store_->put_measurement(key("k"), "cpu avx2", first)));
  EXPECT_FALSE(must(store_->put_measurement(key("k"), "cpu avx2", {1.0, 1, 1})));
  EXPECT_TRUE(must(store_->put_measurement(key("k"), "sm_90", {3.25, 5, 6})));
  reopen();
  EXPECT_EQ(must(store_->get_measurement(key("k"), "cpu avx2")), first);
  EXPECT_EQ(must(store_->get_measurement(key("k"), "cpu")), std::nullopt);
  std::vector<std::string> seen;
  must(store_->for_each_measurement([&](const common::Digest& fingerprint, std::string_view device,
                                        const StoredMeasurement& measurement) {
    EXPECT_EQ(fingerprint, key("k"));
    seen.push_back(common::cat(device, '=', measurement.ns));
  }));
  EXPECT_EQ(seen, (std::vector<std::string>{"cpu avx2=12.5", "sm_90=3.25"}));
}

TEST_F(StoreTest, NegativesExpire) {
  must(store_->put_negative(key("forever"), {"crashed two workers", 0}));
  must(store_->put_negative(key("soon"), {"compiler timed out", now_ns_ + 5'000'000}));
  EXPECT_EQ(must(store_->get_negative(key("soon")))->reason, "compiler timed out");
  pass_ms(10);
  EXPECT_FALSE(must(store_->get_negative(key("soon"))).has_value());
  reopen();
  EXPECT_EQ(must(store_->get_negative(key("forever")))->reason, "crashed two workers");
  EXPECT_FALSE(must(store_->get_negative(key("never put"))).has_value());
}

TEST_F(StoreTest, JournalKeepsOrderAndRefusesTakenNumbers) {
  std::vector<JobRecord> later{{300, "c"}, {256, "b"}};
  std::vector<JobRecord> first{{2, "a"}};
  must(store_->append_job("job-1", later, true));
  must(store_->append_job("job-1", first, false));
  must(store_->append_job("job-10", first, false));
  std::vector<JobRecord> taken{{301, "d"}, {2, "again"}};
  auto refused = store_->append_job("job-1", taken, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidInput);
  reopen();
  std::string text;
  for (const JobRecord& record : must(store_->read_job("job-1"))) {
    text += common::cat(record.sequence, record.bytes, ' ');
  }
  EXPECT_EQ(text, "2a 256b 300c ");
  EXPECT_EQ(must(store_->open_jobs()), (std::vector<std::string>{"job-1", "job-10"}));
  must(store_->remove_job("job-1", 300));
  EXPECT_EQ(must(store_->read_job("job-1")).size(), 1u);
  must(store_->remove_job("job-1"));
  EXPECT_EQ(must(store_->open_jobs()), std::vector<std::string>{"job-10"});
  EXPECT_TRUE(must(store_->read_job("job-1")).empty());
  EXPECT_FALSE(store_->append_job("", first, false).ok());
  EXPECT_FALSE(store_->append_job(std::string(256, 'x'), first, false).ok());
}

TEST_F(StoreTest, CountersSurviveReopening) {
  must(store_->put_plan(make_plan("p", 1, {})));
  must(store_->get_plan(key("p")));
  must(store_->get_plan(key("absent")));
  must(store_->get_plan(key("absent"), cache::Lookup::kInspect));
  must(store_->put_named("epoch", "7"));
  cache::TenantUsage usage{2, 700, 9'000, {{480'000, 50}}};
  must(store_->put_named(cache::tenant_record_name("a"), cache::encode_usage(usage)));
  must(store_->put_named(cache::tenant_record_name("b"), cache::encode_usage({1, 30, 1, {}})));
  must(store_->put_named(cache::tenant_record_name("damaged"), "x"));
  reopen();
  auto stats = must(store_->stats());
  // Of the tenants, which is where a farm counts them.
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.saved_ms, 730u);
  EXPECT_EQ(stats.misses, 1u);
  auto usages = must(store_->tenant_usages());
  ASSERT_EQ(usages.size(), 3u);
  EXPECT_EQ(usages["a"].hours, usage.hours);
  EXPECT_EQ(usages["a"].used_ms, 9'000u);
  EXPECT_EQ(usages["damaged"].hits, 0u);
  EXPECT_EQ(stats.plans.count, 1u);
  EXPECT_GT(stats.disk_bytes, 0u);
  EXPECT_EQ(must(store_->get_named("epoch")), "7");
  EXPECT_EQ(must(store_->get_named("other")), std::nullopt);
}

TEST_F(StoreTest, APlanThatIsNotWaitedForIsThereAllTheSame) {
  NewPlan plan = make_plan("p", 1, {must(store_->put_blob("kernel"))});
  plan.is_durable = false;
  EXPECT_TRUE(must(store_->put_plan_if_better(plan)));
  for (bool is_reopened : {false, true}) {
    if (is_reopened) reopen();
    auto bundle = must(store_->get_bundle(key("p")));
    ASSERT_TRUE(bundle.has_value());
    EXPECT_EQ(bundle->blobs.at(0), "kernel");
  }
}

TEST_F(StoreTest, CollectionKeepsWhatWasUsedLast) {
  auto shared = must(store_->put_blob(noise(1000, 100)));
  std::vector<common::Digest> own;
  for (int i = 0; i < 10; ++i) {
    own.push_back(must(store_->put_blob(noise(10'000, i))));
    must(store_->put_plan(make_plan(common::cat("p", i), 1, {own.back(), shared})));
  }
  for (int i : {3, 0, 8}) must(store_->get_plan(key(common::cat("p", i))));
  auto report = must(store_->gc(35'000));
  EXPECT_EQ(report.plans_removed, 7u);
  EXPECT_EQ(report.blobs_removed, 7u);
  EXPECT_LE(report.bytes_kept, 35'000u);
  for (int i = 0; i < 10; ++i) {
    bool kept = i == 3 || i == 0 || i == 8;
    EXPECT_EQ(must(store_->get_plan(key(common::cat("p", i)))).has_value(), kept) << i;
    EXPECT_EQ(must(store_->get_blob(own[static_cast<size_t>(i)])).has_value(), kept) << i;
  }
  reopen();
  EXPECT_TRUE(must(store_->has_blob(shared)));
  auto stats = must(store_->stats());
  EXPECT_EQ(stats.plans.count, 3u);
  EXPECT_EQ(stats.kernels.count, 4u);
  EXPECT_EQ(stats.kernels.bytes, 31'000u);
  EXPECT_EQ(must(store_->gc(0)).bytes_kept, 1000u);  // asked for a moment ago by has_blob
  pass_ms(11 * 60 * 1000);
  EXPECT_EQ(must(store_->gc(0)).bytes_kept, 0u);
  EXPECT_EQ(must(store_->stats()).kernels.count, 0u);
}

TEST_F(StoreTest, BlobsWaitTenMinutesForTheirPlan) {
  auto blob = must(store_->put_blob("kernel"));
  must(store_->put_plan(make_plan("p", 1, {})));
  auto report = must(store_->gc(1'000'000));
  EXPECT_EQ(report.blobs_removed, 0u);
  must(store_->put_plan(make_plan("q", 1, {blob})));
  must(store_->remove_plan(key("q")));
  must(store_->put_blob("another kernel"));
  pass_ms(11 * 60 * 1000);
  report = must(store_->gc(1'000'000));
  EXPECT_EQ(report.blobs_removed, 2u);
  EXPECT_EQ(report.plans_removed, 0u);
  EXPECT_FALSE(must(store_->has_blob(blob)));
}

TEST_F(StoreTest, TheBoundHoldsWithoutBeingAsked) {
  options_.max_bytes = 100'000;
  reopen();
  for (int i = 0; i < 40; ++i) {
    auto blob = must(store_->put_blob(noise(10'000, i)));
    must(store_->put_plan(make_plan(common::cat("p", i), 1, {blob})));
    auto stats = must(store_->stats());
    EXPECT_LE(stats.plans.bytes + stats.kernels.bytes, 110'000u) << i;
    EXPECT_TRUE(must(store_->get_plan(key(common::cat("p", i)))).has_value());
    must(store_->get_plan(key("p0")));  // in use all the time
  }
  EXPECT_TRUE(must(store_->get_plan(key("p0"))).has_value());
  EXPECT_FALSE(must(store_->get_plan(key("p1"))).has_value());
  EXPECT_TRUE(must(store_->get_plan(key("p39"))).has_value());
  EXPECT_GE(must(store_->stats()).plans.count, 8u);
}

TEST_F(StoreTest, ThreadsCommitExactlyOnceAndReadWholePlans) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 100;
  std::atomic<int> kept{0};
  std::atomic<int> measured{0};
  std::atomic<bool> torn{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        std::string body = common::cat("kernel ", i);
        auto blob = must(store_->put_blob(body));
        // All threads offer the same time for plan i: one of them is kept.
        NewPlan plan = make_plan(common::cat("p", i), 1000, {blob}, common::cat("plan ", i));
        if (must(store_->put_plan_if_better(plan))) ++kept;
        if (must(store_->put_measurement(key(body), "cpu", {1.0 * t, 1, 1}))) ++measured;
        std::vector<JobRecord> record{{static_cast<uint64_t>(i), body}};
        must(store_->append_job(common::cat("job", t), record, i % 16 == 0));
        auto bundle = must(store_->get_bundle(plan.facts.key));
        if (!bundle || bundle->blobs[0] != body || bundle->plan.bytes != plan.bytes) torn = true;
        if (t == 0 && i % 20 == 0) must(store_->gc(1'000'000'000));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(kept, kRounds);
  EXPECT_EQ(measured, kRounds);
  EXPECT_FALSE(torn);
  auto stats = must(store_->stats());
  EXPECT_EQ(stats.plans.count, static_cast<uint64_t>(kRounds));
  EXPECT_EQ(stats.kernels.count, static_cast<uint64_t>(kRounds));
  EXPECT_EQ(stats.jobs.count, static_cast<uint64_t>(kThreads * kRounds));
  EXPECT_EQ(stats.misses, 0u);
}

TEST_F(StoreTest, ThreadsNeverSeeAPlanWithoutItsBlobsWhileItIsEvicted) {
  std::atomic<bool> stop{false};
  std::atomic<bool> torn{false};
  std::thread reader([&] {
    while (!stop) {
      for (int i = 0; i < 8; ++i) {
        auto bundle = must(store_->get_bundle(key(common::cat("p", i))));
        if (bundle && bundle->blobs.at(0) != common::cat("kernel ", i)) torn = true;
        must(store_->get_plan(key(common::cat("p", i))));
      }
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 8; ++i) {
      auto blob = must(store_->put_blob(common::cat("kernel ", i)));
      must(store_->put_plan(make_plan(common::cat("p", i), 1, {blob})));
    }
    must(store_->gc(0));
    // What the memory of verified blobs says after an eviction is what the disk says.
    for (int i = 0; i < 8; ++i) {
      EXPECT_FALSE(
          store_->put_plan(make_plan("x", 1, {digest_of(common::cat("kernel ", i))})).ok());
    }
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(torn);
}

}  // namespace
}  // namespace cache
