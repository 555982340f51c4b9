// Traces of a farm's jobs: if these fail, an operator cannot see what a job's time went on, sees
// what is another tenant's, or traces fill the disk.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "clients/runtime/farm/farm_client.h"
#include "common/base/cat.h"
#include "tests/farm/service/service_farm.h"
#include "tests/farm/service/trace_check.h"

namespace coordinator::service {
namespace {

using common::cat;
using trace_testing::Json;

class ServiceTraceTest : public ServiceTest {
 protected:
  ServiceTraceTest() { std::filesystem::create_directories(options_.state); }

  common::Result<Json> trace(uint64_t job, std::optional<common::ClientKeys> keys = std::nullopt,
                             common::ProtocolRange protocol = common::kProtocolsSpoken) {
    clients::FarmClientOptions options;
    options.endpoint = endpoint();
    options.keys = std::move(keys);
    options.protocol = protocol;
    LFARM_ASSIGN_OR_RETURN(auto client, clients::FarmClient::connect(std::move(options)));
    LFARM_ASSIGN_OR_RETURN(std::string text, client->trace(job));
    return Json::parse(text);
  }
  // A job of its own, from its submit to its plan; returns its answer.
  common::PlanReady finish_job(int64_t size, FakeWorker& worker, FakeClient& client) {
    size_t plans = client.count<common::PlanReady>();
    client.submit(scripted_graph(size), request());
    EXPECT_TRUE(
        converse({&worker, &client}, [&] { return client.count<common::PlanReady>() > plans; }));
    return *client.last<common::PlanReady>();
  }
};

TEST_F(ServiceTraceTest, AJobsTraceShowsWhereItsTimeWent) {
  start();
  FakeWorker worker(endpoint(), "w1", kTestTarget);
  worker.spans = {{"compile", 0, 0.01}, {"run", 0.01, 0.02}, {"verify", 0.015, 0.005}};
  FakeClient client(endpoint());
  common::PlanReady plan = finish_job(8, worker, client);
  auto found = trace(plan.job_id);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(trace_testing::problem(*found), "");

  // Each candidate once, with what became of it.
  std::vector<Json> candidates = trace_testing::of_category(*found, "candidate");
  ASSERT_EQ(candidates.size(), 6u);
  for (const Json& one : candidates) {
    EXPECT_EQ(one.at("args").at("outcome"), "ok");
    EXPECT_EQ(one.at("args").at("job"), plan.job_id);
    EXPECT_GT(one.at("args").at("measured_ns"), 0);
  }
  EXPECT_EQ(trace_testing::of_category(*found, "commit").size(), 6u);
  EXPECT_GE(trace_testing::of_category(*found, "search").size(), 1u);
  EXPECT_EQ(trace_testing::marks(*found), std::vector<std::string>{"done"});
  EXPECT_EQ(found->at("otherData").at("target"), kTestTarget);

  // Stage by stage what the client was told.
  std::map<std::string, double> stages;
  for (const char* kind : {"stage", "preparation"}) {
    for (const Json& stage : trace_testing::of_category(*found, kind)) {
      stages[stage.at("name")] += stage.at("dur").get<double>() * 1e-3;
    }
  }
  double told_ms = 0;
  for (const common::StageTime& stage : plan.breakdown) {
    // The script says what it took to prepare, and may have been faster.
    bool is_scripted = stage.stage == "roll";
    if (is_scripted) continue;
    EXPECT_NEAR(stages[stage.stage], stage.ms, 0.01) << stage.stage;
    told_ms += stage.ms;
  }
  EXPECT_LE(told_ms, static_cast<double>(plan.elapsed_ms) + 1);
  double job_ms = trace_testing::of_category(*found, "job").at(0).at("dur").get<double>() * 1e-3;
  // Between two stages the loop may have had other things to do.
  EXPECT_GE(job_ms + 0.01, told_ms + stages["prepare"]);
}

TEST_F(ServiceTraceTest, ItOutlivesTheCoordinatorAndTheJobsFailure) {
  start();
  uint64_t job = 0, failed = 0;
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    worker.answers_max = 3;
    FakeClient client(endpoint());
    client.submit(scripted_graph(8), request());
    ASSERT_TRUE(converse({&worker, &client}, [&] {
      const auto* progress = client.last<common::Progress>();
      return progress != nullptr && progress->candidates_done == 3;
    }));
    job = client.last<common::Accepted>()->job_id;
  }
  stop();
  start();
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    FakeClient client(endpoint());
    client.submit(scripted_graph(8), request());
    ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
    EXPECT_EQ(client.last<common::Accepted>()->job_id, job);
    worker.judge = [](const common::Task&) { return common::TaskOutcome::kWrong; };
    client.submit(scripted_graph(9), request());
    ASSERT_TRUE(
        converse({&worker, &client}, [&] { return client.last<common::JobFailed>() != nullptr; }));
    failed = client.last<common::JobFailed>()->job_id;
  }
  stop();
  start();
  auto found = trace(job);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(trace_testing::problem(*found), "");
  std::vector<std::string> marks = trace_testing::marks(*found);
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[0].find("interrupted: "), 0u) << marks[0];
  EXPECT_EQ(marks[1], "taken up by another coordinator");
  EXPECT_EQ(marks[2], "done");
  // What was measured before the restart is there, and nothing was measured twice.
  EXPECT_EQ(trace_testing::of_category(*found, "candidate").size(), 6u);

  found = trace(failed);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(trace_testing::problem(*found), "");
  ASSERT_EQ(trace_testing::marks(*found).size(), 1u);
  EXPECT_EQ(trace_testing::marks(*found)[0].find("failed: "), 0u);
  EXPECT_EQ(trace_testing::of_category(*found, "candidate").at(0).at("args").at("outcome"),
            "wrong");
}

TEST_F(ServiceTraceTest, ALostWorkersLeaseIsInIt) {
  expire_quickly();
  options_.times.no_worker_grace_ms = 60'000;
  start();
  auto silent = std::make_unique<FakeWorker>(endpoint(), "gone", kTestTarget);
  silent->answers_max = 0;
  FakeClient client(endpoint());
  client.submit(scripted_graph(8), request());
  ASSERT_TRUE(converse({silent.get(), &client}, [&] { return !silent->tasks.empty(); }));
  silent.reset();
  FakeWorker worker(endpoint(), "stays", kTestTarget);
  ASSERT_TRUE(converse({&worker, &client}, [&] { return client.plan() != nullptr; }));
  auto found = trace(client.last<common::Accepted>()->job_id);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(trace_testing::problem(*found), "");
  size_t lost = 0, results = 0;
  for (const Json& lease : trace_testing::of_category(*found, "lease")) {
    if (!lease.at("args").contains("worker")) continue;
    // On a slow machine the second worker may seem silent for a while, too.
    bool is_result = lease.at("args").at("end") == "result";
    if (!is_result) {
      lost += lease.at("args").at("worker") == "gone" ? 1 : 0;
      continue;
    }
    EXPECT_EQ(lease.at("args").at("worker"), "stays");
    ++results;
  }
  EXPECT_GE(lost, 1u);
  EXPECT_EQ(results, 6u);
}

TEST_F(ServiceTraceTest, TracesOfEndedJobsAreBoundedInNumberAndLength) {
  options_.kept.ended_jobs_max = 2;
  options_.kept.trace_rows_max = 8;
  start();
  std::vector<uint64_t> jobs;
  {
    FakeWorker worker(endpoint(), "w1", kTestTarget);
    FakeClient client(endpoint());
    for (int64_t size = 4; size < 8; ++size) {
      jobs.push_back(finish_job(size, worker, client).job_id);
    }
  }
  // Also where they ended before this coordinator began.
  stop();
  start();
  for (size_t k = 0; k < jobs.size(); ++k) {
    auto found = trace(jobs[k]);
    EXPECT_EQ(found.ok(), k >= 2) << k;
    if (!found.ok()) {
      EXPECT_EQ(found.error().code, common::Code::kInvalidInput);
      EXPECT_NE(found.error().message.find("its trace was let go"), std::string::npos);
      continue;
    }
    EXPECT_EQ(trace_testing::problem(*found), "");
    EXPECT_LE(found->at("otherData").at("rows"), 8);
    EXPECT_GE(found->at("otherData").at("rows"), 6);
    EXPECT_GT(found->at("otherData").at("rows_dropped"), 0);
  }
}

TEST_F(ServiceTraceTest, ATenantSeesItsOwnJobsOnly) {
  options_.access.secure = true;
  common::KeyPair a = common::make_key_pair(), b = common::make_key_pair();
  common::KeyPair boss = common::make_key_pair(), hand = common::make_key_pair();
  std::ofstream(options_.state + "/allow") << a.public_key << " team-a submit,read\n"
                                           << b.public_key << " team-b submit,read\n"
                                           << boss.public_key << " operators admin\n"
                                           << hand.public_key << " workers worker\n";
  start();
  auto as = [&](const common::KeyPair& keys) { return common::ClientKeys{keys, public_key()}; };
  FakeWorker worker(endpoint(), "w1", kTestTarget, 2, as(hand));
  FakeClient client(endpoint(), as(a));
  uint64_t job = finish_job(8, worker, client).job_id;
  EXPECT_TRUE(trace(job, as(a)).ok());
  EXPECT_TRUE(trace(job, as(boss)).ok());
  auto other = trace(job, as(b)), none = trace(job + 1, as(b));
  ASSERT_FALSE(other.ok());
  // Nothing tells another's job from none.
  EXPECT_EQ(other.error().message,
            cat("there is no trace of job ", job,
                none.error().message.substr(none.error().message.find(':'))));
  EXPECT_FALSE(trace(job, as(hand)).ok());
}

}  // namespace
}  // namespace coordinator::service
