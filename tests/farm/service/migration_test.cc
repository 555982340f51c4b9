// A farm that moves between its state directory and an engine, over a real redis-server: if these
// fail, a move loses plans or searches, brings back what was revoked, or writes beside a
// coordinator that serves.
#include "coordinator/service/migration/migration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/engine/name_walk.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/secret_file.h"
#include "common/ir/hlir/builder.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/shard/shard.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/journal/job_journal.h"
#include "coordinator/service/migration/migrate_command.h"
#include "coordinator/service/plans/recipe.h"
#include "coordinator/service/signing/key_signer.h"
#include "tests/farm/service/redis_server.h"
#include "tests/unit/clients/sealed_plan.h"
#include "tests/unit/store/s3_server.h"

namespace coordinator::service {
namespace {

using cache::RedisServer;
using common::cat;
using common::Digest;
using common::digest_of;

constexpr const char* kTenant = "team";
constexpr int kPlans = 5;

template <class T>
T must(common::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
void must(const common::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error().message);
}

// y = x + x over `size` elements.
common::Graph doubling(int64_t size) {
  common::GraphBuilder builder;
  common::NodeId x = builder.input(common::InputKind::kUser, common::DType::kFloat32, {size}, "x");
  builder.output(builder.binary(common::BinaryOp::kAdd, x, x));
  return builder.finish();
}

std::string recipe_of(const common::Graph& graph) {
  Recipe recipe;
  recipe.graph = common::encode_graph(graph);
  common::TaskPayload payload;
  payload.graph = digest_of(recipe.graph);
  recipe.payload = common::encode_task_payload(payload);
  return encode_recipe(recipe);
}

// A state directory's store with what of a coordinator fills it.
struct Farm {
  explicit Farm(const common::SigningKey& key)
      : folder(must(common::ScratchDirectory::create("farm"))),
        store(must(cache::Store::open(folder.path(), {}))),
        tenants(*store),
        plans(*store, std::make_shared<KeySigner>(key), tenants) {
    must(plans.load_revocations());
  }
  static common::Plan plan(int number, int64_t best_ns) {
    common::Plan plan = common::chain_plan(2);
    plan.key.graph_hash = digest_of(cat("graph", number));
    plan.provenance.machine = "machine";
    plan.provenance.best_ns = best_ns;
    return plan;
  }
  // The plan's id.
  Digest keep(int number, int64_t best_ns) {
    for (const char* object : {"object0", "object1"}) must(store->put_blob(object));
    return must(plans.keep(kTenant, plan(number, best_ns), {}));
  }
  static common::Plan made_plan() {
    common::Plan made = plan(0, 1'000);
    made.key.graph_hash = common::graph_hash(doubling(8));
    return made;
  }
  static Digest made_place() {
    return common::place_of(kTenant, made_plan().key.digest(), made_plan().provenance.machine);
  }
  // With its recipe.
  void keep_made() {
    for (const char* object : {"object0", "object1"}) must(store->put_blob(object));
    KeptPlan how;
    how.recipe = recipe_of(doubling(8));
    must(plans.keep(kTenant, made_plan(), how));
  }
  // What it takes to make that plan anew; empty: it cannot be.
  std::string recipe() {
    common::Plan wanted = made_plan();
    auto made = must(plans.find_made(kTenant, wanted.key, wanted.provenance.machine));
    return made ? made->recipe_blob : "";
  }
  // 0: there is none that is whole.
  int64_t best_ns(int number) {
    common::Plan wanted = plan(number, 0);
    auto found = must(store->get_bundle(
        common::place_of(kTenant, wanted.key.digest(), wanted.provenance.machine)));
    return found ? found->plan.facts.best_ns : 0;
  }
  // A job with so many results.
  void open_job(farm::JobId id, int number, int results) {
    JobRequest request;
    request.id = id;
    request.key = plan(number, 0).key;
    request.graph = digest_of("encoded");
    request.tenant = kTenant;
    request.budget_candidates = 100;
    cache::Changes changes;
    journal_job(changes, request, common::as_bytes("encoded"));
    JobStart start;
    start.machine = "machine";
    journal_start(changes, id, 0, start);
    for (int k = 0; k < results; ++k) {
      CandidateResult result;
      result.outcome = common::TaskOutcome::kWrong;
      result.message = cat("output ", k, " differs");
      journal_result(changes, id, kStartRecords + static_cast<uint64_t>(k),
                     {common::TaskKind::kCandidate, digest_of(cat("candidate", k))}, result);
    }
    must(store->commit({&changes, 1}));
  }
  std::vector<JournalledJob> jobs() {
    std::vector<JournalledJob> jobs;
    for (farm::JobId id : must(list_journals(*store)).open) {
      jobs.push_back(must(read_journal(*store, id)));
    }
    return jobs;
  }

  common::ScratchDirectory folder;
  std::unique_ptr<cache::Store> store;
  Tenants tenants;
  PlanRepository plans;
};

class MigrationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::is_there()) {
      GTEST_SKIP() << "no redis-server on this machine; .ci/packages.txt names its package";
    }
    redis_.emplace();
    key_ = must(common::load_or_create_signing_key(folder_.path() + "/key"));
    setup_.remote.address = must(cache::parse_remote_address(redis_->address()));
    setup_.remote.answer_ms = setup_.remote.transfer_ms = 60'000;
    setup_.options.address = redis_->address();
    sharding_.duration_ms = 9'000;  // long enough for a busy machine to renew
    first_.emplace(key_);
    second_.emplace(key_);
  }
  std::unique_ptr<Sharding> sharding(const std::string& identity) {
    ShardingOptions options = sharding_;
    options.identity = identity;
    return std::make_unique<Sharding>(options, setup_.remote, engine_space(key_.public_key()),
                                      common::Incarnation::draw(), clock_);
  }
  // `plans_max`: after so many plans it is told to stop.
  common::Result<MigrationCounts> migrate(Farm& farm, bool is_to_engine,
                                          uint64_t plans_max = UINT64_MAX) {
    auto own = sharding("migration");
    LFARM_ASSIGN_OR_RETURN(auto hold,
                           FarmHold::take(*own, sharding_, clock_, [] { return false; }));
    Migration migration(setup_, *own, *hold, std::make_shared<KeySigner>(key_), *farm.store);
    auto progress = [plans_max](const MigrationCounts& counts) -> common::Status {
      if (counts.seen < plans_max) return {};
      return common::unavailable("told to stop");
    };
    return is_to_engine ? migration.to_engine(progress) : migration.to_store(progress);
  }

  common::ScratchDirectory folder_ = must(common::ScratchDirectory::create("farm-key"));
  common::SteadyClock clock_;
  common::SigningKey key_;
  SharedTierSetup setup_;
  ShardingOptions sharding_;
  std::optional<RedisServer> redis_;
  std::optional<Farm> first_, second_;
};

TEST_F(MigrationTest, AFarmGoesToTheEngineAndToAnotherStateDirectory) {
  for (int k = 0; k < kPlans; ++k) first_->keep(k, 1'000 + k);
  first_->open_job(7, 100, 3);
  first_->open_job(9, 101, 0);
  auto there = must(migrate(*first_, true));
  EXPECT_EQ(there.plans, 5U);
  EXPECT_EQ(there.seen, 5U);
  EXPECT_EQ(there.copied, 5U);
  EXPECT_EQ(there.jobs, 2U);
  EXPECT_EQ(there.jobs_left, 0U);
  // Plans are copied, jobs are moved: one coordinator goes on with each.
  EXPECT_EQ(first_->best_ns(0), 1'000);
  EXPECT_TRUE(first_->jobs().empty());

  second_->open_job(20, 200, 1);
  auto back = must(migrate(*second_, false));
  EXPECT_EQ(back.plans, 5U);
  EXPECT_EQ(back.copied, 5U);
  EXPECT_EQ(back.refused, 0U);
  EXPECT_EQ(back.jobs, 2U);
  for (int k = 0; k < kPlans; ++k) EXPECT_EQ(second_->best_ns(k), 1'000 + k) << k;
  auto jobs = second_->jobs();
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].request.id, 20U);
  size_t results = 0;
  for (size_t k = 1; k < jobs.size(); ++k) {
    EXPECT_GT(jobs[k].request.id, 20U);
    EXPECT_EQ(jobs[k].request.budget_candidates, 100U);
    EXPECT_EQ(jobs[k].start->machine, "machine");
    results += jobs[k].results.size();
  }
  EXPECT_EQ(results, 3U);
  // Nothing of the jobs is left there.
  auto again = must(migrate(*second_, false));
  EXPECT_EQ(again.jobs, 0U);
  EXPECT_EQ(again.copied, 0U);
  EXPECT_EQ(again.there, 5U);
}

TEST_F(MigrationTest, RecipesGoWithTheirPlans) {
  const std::string recipe = recipe_of(doubling(8));
  first_->keep_made();
  first_->keep(1, 1'000);
  EXPECT_EQ(must(migrate(*first_, true)).recipes, 1U);
  auto back = must(migrate(*second_, false));
  EXPECT_EQ(back.copied, 2U);
  EXPECT_EQ(back.recipes, 1U);
  EXPECT_EQ(second_->recipe(), recipe);
  back = must(migrate(*second_, false));
  EXPECT_EQ(back.there, 2U);
  EXPECT_EQ(back.recipes, 1U);
}

// As a release has left it that copied plans alone.
TEST_F(MigrationTest, RecipesComeAfterTheirPlans) {
  const std::string recipe = recipe_of(doubling(8));
  const uint32_t shard = common::shard_of(kTenant, common::graph_hash(doubling(8)));
  const std::string recipes =
      cat("lfarm:2:{", engine_space(key_.public_key()), '.', shard, "}:recipe");
  first_->keep_made();
  must(migrate(*first_, true));
  ASSERT_EQ(redis_->ask({"DEL", recipes}).integer, 1);
  auto without = must(migrate(*second_, false));
  EXPECT_EQ(without.copied, 1U);
  EXPECT_EQ(without.recipes, 0U);
  EXPECT_EQ(second_->recipe(), "");
  auto there = must(migrate(*first_, true));
  EXPECT_EQ(there.there, 1U);
  EXPECT_EQ(there.recipes, 1U);
  auto back = must(migrate(*second_, false));
  EXPECT_EQ(back.there, 1U);
  EXPECT_EQ(back.recipes, 1U);
  EXPECT_EQ(second_->recipe(), recipe);

  // One of another graph is not taken; the plan is.
  Farm third(key_);
  const std::string other = recipe_of(doubling(9));
  const std::string other_name = cat("lfarm:1:object:", digest_of(other).hex());
  const std::string other_digest = digest_of(other).hex(), place = Farm::made_place().hex();
  redis_->ask({"SET", other_name, other});
  redis_->ask({"HSET", recipes, place, other_digest});
  auto refused = must(migrate(third, false));
  EXPECT_EQ(refused.copied, 1U);
  EXPECT_EQ(refused.recipes, 0U);
  EXPECT_EQ(third.recipe(), "");
}

TEST_F(MigrationTest, MeasurementsOfKernelsGoToTheEngineAndToAnotherStateDirectory) {
  auto time = [](double ns) { return cache::StoredMeasurement{ns, 7, 1'700'000'000}; };
  constexpr int kKernels = 300;  // more than there are records
  for (int k = 0; k < kKernels; ++k) {
    for (const char* device : {"cpu", "cpu\tsome class"}) {
      must(first_->store->put_measurement(digest_of(cat("kernel", k)), device, time(100 + k)));
    }
  }
  EXPECT_EQ(must(migrate(*first_, true)).measurements.copied, 2U * kKernels);
  EXPECT_EQ(must(migrate(*first_, true)).measurements.copied, 0U) << "they were copied twice";
  // What was measured here stays as it was, and is added to what is there.
  must(second_->store->put_measurement(digest_of("kernel0"), "cpu", time(5)));
  must(second_->store->put_measurement(digest_of("another"), "cpu", time(6)));
  EXPECT_EQ(must(migrate(*second_, false)).measurements.copied, 2U * kKernels - 1);
  EXPECT_EQ(must(migrate(*second_, true)).measurements.copied, 1U);
  EXPECT_EQ(must(second_->store->get_measurement(digest_of("kernel0"), "cpu")), time(5));
  EXPECT_EQ(must(second_->store->get_measurement(digest_of("kernel9"), "cpu\tsome class")),
            time(109));
  EXPECT_EQ(must(migrate(*first_, false)).measurements.copied, 1U);
  EXPECT_EQ(must(first_->store->get_measurement(digest_of("another"), "cpu")), time(6));
  EXPECT_EQ(must(first_->store->get_measurement(digest_of("kernel0"), "cpu")), time(100));
}

TEST_F(MigrationTest, MeasurementsThatTheFarmDidNotSignAreNotTaken) {
  must(first_->store->put_measurement(digest_of("kernel"), "cpu", {1'000, 7, 1'700'000'000}));
  must(migrate(*first_, true));
  const Digest place = common::Hasher()
                           .text("measurements")
                           .data(key_.public_key())
                           .u64(static_cast<uint64_t>(digest_of("kernel").bytes[0]))
                           .finish();
  const std::string name = cat("lfarm:1:measurements:", place.hex());
  ASSERT_EQ(redis_->ask({"EXISTS", name}).integer, 1);
  std::string bytes = redis_->ask({"GET", name}).text;
  bytes.back() ^= 1;
  redis_->ask({"SET", name, bytes});
  auto refused = migrate(*second_, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, common::Code::kCorrupt);
  // The farm's own are written anew.
  EXPECT_EQ(must(migrate(*first_, true)).measurements.copied, 1U);
  EXPECT_EQ(must(migrate(*second_, false)).measurements.copied, 1U);
}

TEST_F(MigrationTest, OneThatWasCutOffGoesOn) {
  for (int k = 0; k < kPlans; ++k) first_->keep(k, 1'000);
  first_->open_job(7, 100, 3);
  auto cut_off = migrate(*first_, true, 2);
  ASSERT_FALSE(cut_off.ok());
  EXPECT_EQ(first_->jobs().size(), 1U);
  auto rest = must(migrate(*first_, true));
  EXPECT_EQ(rest.there, 2U);
  EXPECT_EQ(rest.copied, 3U);
  EXPECT_EQ(rest.jobs, 1U);
  ASSERT_FALSE(migrate(*second_, false, 4).ok());
  rest = must(migrate(*second_, false));
  EXPECT_EQ(rest.there, 4U);
  EXPECT_EQ(rest.copied, 1U);
  EXPECT_EQ(rest.jobs, 1U);
}

// Plans whose objects cannot be asked for are there still, and those of the rest would come alone.
TEST_F(MigrationTest, OneWhoseObjectStoreIsAwayEndsAndGoesOnLater) {
  cache::S3Server object_store;
  setup_.objects = object_store.options();
  for (int k = 0; k < kPlans; ++k) first_->keep(k, 1'000);
  must(migrate(*first_, true));
  object_store.refuse("GET", 503, "SlowDown");
  auto away = migrate(*second_, false);
  ASSERT_FALSE(away.ok());
  EXPECT_EQ(away.error().code, common::Code::kUnavailable);
  EXPECT_NE(away.error().message.find(" does not answer: SlowDown"), std::string::npos)
      << away.error().message;
  object_store.refuse_no_more();
  EXPECT_EQ(must(migrate(*second_, false)).copied, uint64_t{kPlans});
}

TEST_F(MigrationTest, TheFasterPlanStaysOnBothSides) {
  first_->keep(0, 1'000);
  first_->keep(1, 2'000);
  must(migrate(*first_, true));
  second_->keep(0, 3'000);
  second_->keep(1, 500);
  must(migrate(*second_, true));
  EXPECT_EQ(second_->best_ns(0), 1'000);
  EXPECT_EQ(second_->best_ns(1), 500);
  must(migrate(*first_, false));
  EXPECT_EQ(first_->best_ns(0), 1'000);
  EXPECT_EQ(first_->best_ns(1), 500);
}

TEST_F(MigrationTest, WhatWasRevokedDoesNotComeBack) {
  first_->keep(0, 1'000);
  Digest revoked = first_->keep(1, 1'000);
  must(migrate(*first_, true));
  ASSERT_EQ(must(first_->plans.revoke(revoked, "wrong")).size(), 1U);
  auto again = must(migrate(*first_, true));
  EXPECT_EQ(again.plans, 1U);
  EXPECT_EQ(again.revocations, 1U);
  auto back = must(migrate(*second_, false));
  EXPECT_EQ(back.plans, 2U);
  EXPECT_EQ(back.copied, 1U);
  EXPECT_EQ(back.passed_over, 1U);
  EXPECT_EQ(second_->best_ns(1), 0);
  EXPECT_TRUE(must(second_->store->revocation(revoked)).has_value());
}

TEST_F(MigrationTest, AFarmThatIsServedIsLeftAlone) {
  first_->keep(0, 1'000);
  auto serving = sharding("coordinator");
  serving->keeper.start({"tcp://coordinator:7070", ""});
  while (serving->keeper.counts().held < common::kShardCount) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  auto refused = migrate(*first_, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, common::Code::kUnavailable);
  EXPECT_NE(refused.error().message.find("tcp://coordinator:7070"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(serving->keeper.counts().held, common::kShardCount) << "it lost shards by being asked";
  EXPECT_TRUE(must(cache::all_names(serving->engine, common::shard_of(kTenant, digest_of("graph0")),
                                    cache::ShardRecord::kPlan))
                  .empty());
  // One that died is waited for.
  serving->keeper.stop();
  EXPECT_EQ(must(migrate(*first_, true)).copied, 1U);
}

// ---- The command -------------------------------------------------------------------------------

TEST_F(MigrationTest, TheCommandMovesAStateDirectory) {
  auto run = [&](const Farm& farm, const std::string& to) {
    std::vector<std::string> words{"lfarm-coordinator", "migrate", "--to",     to,
                                   "--state",           "",        "--remote", "",
                                   "--shard-lease-ms",  "6000"};
    words[5] = farm.folder.path();
    words[7] = redis_->address();
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    return run_migrate(static_cast<int>(arguments.size()), arguments.data());
  };
  first_->keep(0, 1'000);
  EXPECT_EQ(run(*first_, "remote"), 2) << "without the key that signed";
  std::string key = must(common::read_file(folder_.path() + "/key"));
  for (const Farm* farm : {&*first_, &*second_}) {
    must(common::create_secret_file(farm->folder.path() + "/signing.key", key));
  }
  EXPECT_EQ(run(*first_, "remote"), 4) << "beside another process that has the store";
  first_->store.reset();
  second_->store.reset();
  EXPECT_EQ(run(*first_, "elsewhere"), 2);
  EXPECT_EQ(run(*first_, "remote"), 0);
  EXPECT_EQ(run(*second_, "state"), 0);
  second_->store = must(cache::Store::open(second_->folder.path(), {}));
  EXPECT_EQ(second_->best_ns(0), 1'000);
}

}  // namespace
}  // namespace coordinator::service
