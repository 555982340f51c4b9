// The coordinator over real sockets: if these fail, the search that ships does not find plans in a
// farm, or a job's journal does not say what it did.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/inspect/replay.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

common::Graph two_layers() {
  common::GraphBuilder b;
  common::NodeId h = b.input(common::InputKind::kUser, common::DType::kFloat32, {8, 16}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    common::NodeId y = h;
    for (common::UnaryOp op : {common::UnaryOp::kTanh, common::UnaryOp::kSigmoid}) {
      common::NodeId w =
          b.input(common::InputKind::kWeight, common::DType::kFloat32, {16, 16}, "w");
      y = b.unary(op, b.matmul(y, w));
    }
    h = b.binary(common::BinaryOp::kSub, y, b.reduce(common::ReduceOp::kMax, y, {1}, true));
  }
  b.output(h);
  return b.finish();
}

TEST_F(ServiceTest, TheRealSearchFindsAPlan) {
  options_.create_search = JobSearch::create;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(24));
  ASSERT_TRUE(converse({&worker, &client}, [&] {
    return client.plan() != nullptr || client.last<common::JobFailed>() != nullptr;
  }));
  ASSERT_NE(client.plan(), nullptr) << client.last<common::JobFailed>()->message;
  EXPECT_LE(client.last<common::PlanReady>()->candidates, 24u);
  EXPECT_LE(client.last<common::PlanReady>()->best_ns,
            client.last<common::PlanReady>()->baseline_ns);
}

// The second job begins with the first one's priors and measurements.
TEST_F(ServiceTest, AJobIsReplayedFromItsJournal) {
  options_.create_search = JobSearch::create;
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(24));
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  size_t before = worker.tasks.size();
  common::Submit other = request(40);
  other.policy = "relaxed";
  other.seed = 3;
  other.in_flight = 20;
  client.submit(two_layers(), other);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.count<common::PlanReady>() == 2; }));
  farm::JobId job = client.last<common::PlanReady>()->job_id;
  EXPECT_EQ(client.last<common::PlanReady>()->cache, common::CacheOutcome::kPartial);
  stop();

  auto store = cache::Store::open(options_.state);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto replay = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(replay.ok()) << replay.error().message;
  EXPECT_EQ(replay->difference, "");
  EXPECT_EQ(replay->job.start->in_flight, 20);
  EXPECT_FALSE(replay->job.start->priors.empty());
  EXPECT_FALSE(replay->job.answers.empty());
  std::multiset<common::Digest> sent, replayed;
  for (size_t k = before; k < worker.tasks.size(); ++k) {
    auto payload = common::decode_task_payload(worker.tasks[k].payload);
    ASSERT_TRUE(payload.ok());
    if (payload->kind == common::TaskKind::kComparison) continue;
    sent.insert(common::program_fingerprint(payload->program));
  }
  for (const ReplayedCandidate& candidate : replay->candidates) {
    EXPECT_FALSE(candidate.task.origin.empty());
    replayed.insert(candidate.task.fingerprint);
  }
  EXPECT_EQ(replayed, sent);
  auto again = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(again->candidates.size(), replay->candidates.size());
  for (size_t k = 0; k < again->candidates.size(); ++k) {
    EXPECT_EQ(again->candidates[k].task.fingerprint, replay->candidates[k].task.fingerprint);
    EXPECT_EQ(again->candidates[k].task.predicted_ns, replay->candidates[k].task.predicted_ns);
  }

  // Each of these lies about what happened.
  auto records = (*store)->read_job(common::cat("job-", job));
  ASSERT_TRUE(records.ok());
  auto is_result = [](const cache::JobRecord& record) {
    return record.sequence > 1 && std::isdigit(static_cast<unsigned char>(record.bytes[0])) != 0;
  };
  auto first = std::find_if(records->begin(), records->end(), is_result) - records->begin();
  auto at = static_cast<size_t>(first);
  auto replay_of = [&](std::vector<cache::JobRecord> changed) {
    EXPECT_TRUE((*store)->remove_job(common::cat("job-", job)).ok());
    EXPECT_TRUE((*store)->append_job(common::cat("job-", job), changed, false).ok());
    auto result = replay_job(**store, job, JobSearch::create);
    return result.ok() ? result->difference : result.error().message;
  };
  std::vector<cache::JobRecord> lost = *records, damaged = *records, faster = *records;
  lost.erase(lost.begin() + first);
  EXPECT_NE(replay_of(lost), "");
  damaged[at].bytes.resize(damaged[at].bytes.size() / 2);
  EXPECT_NE(replay_of(damaged), "");
  for (cache::JobRecord& record : faster) {
    // The kind and the fingerprint of one result, with another's times.
    if (is_result(record))
      record.bytes.replace(66, std::string::npos, records->back().bytes, 66, std::string::npos);
  }
  EXPECT_NE(replay_of(faster), "");
  EXPECT_EQ(replay_of(*records), "");
}

TEST_F(ServiceTest, AJobThatOutlivedItsCoordinatorIsReplayedToo) {
  options_.create_search = JobSearch::create;
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget, 4);
    worker.answers_max = 15;
    FakeClient client(endpoint());
    client.submit(two_layers(), request(40));
    ASSERT_TRUE(converse({&worker, &client}, [&] {
      const auto* progress = client.last<common::Progress>();
      return progress != nullptr && progress->candidates_done == 15;
    }));
  }
  stop();
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2);
  FakeClient client(endpoint());
  client.submit(two_layers(), request(40));
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  // The first fifteen were not measured again; a comparison is no candidate.
  EXPECT_EQ(worker.answered, 26u);
  farm::JobId job = client.last<common::PlanReady>()->job_id;
  stop();
  auto store = cache::Store::open(options_.state);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto replay = replay_job(**store, job, JobSearch::create);
  ASSERT_TRUE(replay.ok()) << replay.error().message;
  EXPECT_EQ(replay->difference, "");
  EXPECT_EQ(replay->candidates.size(), 40u);
}

}  // namespace
}  // namespace coordinator::service
