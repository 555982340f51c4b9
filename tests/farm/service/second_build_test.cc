// Plans are signed after two workers have compiled the same: if these fail, one worker's machine
// code reaches clients although another one's compiler says something else, or an honest worker is
// sent away.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/cat.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_farm.h"

namespace coordinator::service {
namespace {

using common::TaskOutcome;

class SecondBuildTest : public ServiceTest {
 protected:
  // Joins after those before it, so that the first one gets the first task.
  FakeWorker& join(const std::string& name, const FakeMachine& machine = {"a class", "cc", true}) {
    workers_.push_back(std::make_unique<FakeWorker>(endpoint(), name, kTestTarget, 2, std::nullopt,
                                                    common::kProtocolsSpoken, machine));
    FakeWorker& worker = *workers_.back();
    EXPECT_TRUE(converse(peers(), [&] { return worker.welcomes + worker.refusals > 0; }));
    return worker;
  }
  // Of one candidate: the finalist.
  void ask() {
    client_ = std::make_unique<FakeClient>(endpoint());
    client_->submit(scripted_graph(8), request(1));
  }
  void submit() {
    ask();
    await_answer();
  }
  void await_answer() {
    ASSERT_TRUE(converse(peers(), [&] {
      return client_->plan() != nullptr || client_->last<common::JobFailed>() != nullptr;
    }));
  }
  std::vector<FakePeer*> peers() {
    std::vector<FakePeer*> all;
    for (const auto& worker : workers_) all.push_back(worker.get());
    if (client_) all.push_back(client_.get());
    return all;
  }
  common::Plan plan() {
    auto outer = common::decode_sealed(client_->plan()->blob.bytes);
    return common::decode_plan(common::decode_grant(outer->bytes).value().plan).value();
  }
  std::string failure() { return client_->last<common::JobFailed>()->message; }
  bool counted(const std::string& result, int times) {
    return service().metrics().value_or("").find(common::cat(
               "lfarm_objects_compared_total{result=\"", result, "\"} ", times, "\n")) !=
           std::string::npos;
  }
  void leave() {
    workers_.clear();
    client_.reset();
  }

  std::vector<std::unique_ptr<FakeWorker>> workers_;
  std::unique_ptr<FakeClient> client_;
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(SecondBuildTest, TheOtherWorkerOfTheToolchainCompilesAndRunsNothing) {
  start();
  FakeWorker& first = join("w1");
  FakeWorker& other = join("other", {"a class", "another cc", true});
  FakeWorker& old = join("old", {"a class", "cc", false});
  FakeWorker& second = join("w2");
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.worker, "w1");
  EXPECT_EQ(plan().provenance.second_worker, "w2");
  ASSERT_EQ(first.tasks.size(), 1u);
  EXPECT_TRUE(first.tasks[0].reproducible);
  EXPECT_FALSE(first.tasks[0].only_build);
  ASSERT_EQ(second.tasks.size(), 1u);
  EXPECT_TRUE(second.tasks[0].reproducible);
  EXPECT_TRUE(second.tasks[0].only_build);
  EXPECT_TRUE(second.tasks[0].blobs.empty()) << "it needs no graph";
  EXPECT_EQ(other.tasks.size() + old.tasks.size(), 0u);
  EXPECT_TRUE(counted("alike", 1));
}

TEST_F(SecondBuildTest, AWorkerThatIsAloneIsAskedForNothingMore) {
  start();
  FakeWorker& first = join("w1");
  join("other", {"another class", "cc", true});
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.second_worker, "");
  ASSERT_EQ(first.tasks.size(), 1u);
  EXPECT_FALSE(first.tasks[0].reproducible) << "what it compiled before was compiled again";
  EXPECT_TRUE(counted("alone", 1));
}

TEST_F(SecondBuildTest, OfTwoThatDifferNoneIsBelieved) {
  start();
  join("w1");
  FakeWorker& second = join("w2");
  second.object_salt = "else";
  submit();
  ASSERT_EQ(client_->plan(), nullptr);
  EXPECT_EQ(client_->last<common::JobFailed>()->code, common::Code::kVerification);
  EXPECT_TRUE(holds(failure(), "workers w1 and w2 compiled 1 of 1 kernels differently"))
      << failure();
  EXPECT_TRUE(counted("differ", 1));
  // Nobody knows which one is wrong: both stay.
  EXPECT_EQ(second.refusals, 0u);
  EXPECT_EQ(workers_[0]->refusals, 0u);
}

TEST_F(SecondBuildTest, AThirdOneFindsThatTheSecondIsWrong) {
  start();
  join("w1");
  FakeWorker& second = join("w2");
  second.object_salt = "else";
  join("w3");
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.second_worker, "w3");
  EXPECT_TRUE(counted("differ", 1));
  EXPECT_TRUE(counted("alike", 1));
  ASSERT_TRUE(converse(peers(), [&] { return holds(second.refusal, "quarantined"); }));
  // Also by the next coordinator.
  leave();
  stop();
  start();
  EXPECT_EQ(join("w1").welcomes, 1u);
  FakeWorker& again = join("w2");
  EXPECT_EQ(again.welcomes, 0u);
  EXPECT_TRUE(holds(again.refusal, "it compiled kernels to other objects than w1 and w3"))
      << again.refusal;
  EXPECT_EQ(join("w2-new").welcomes, 1u);
}

TEST_F(SecondBuildTest, AThirdOneFindsThatTheFirstIsWrong) {
  start();
  FakeWorker& first = join("w1");
  first.object_salt = "else";
  join("w2");
  join("w3");
  submit();
  ASSERT_EQ(client_->plan(), nullptr);
  EXPECT_TRUE(holds(failure(), "w1 gets no more work")) << failure();
  ASSERT_TRUE(converse(peers(), [&] { return holds(first.refusal, "quarantined"); }));
  // The others make the plan.
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_NE(plan().provenance.worker, "w1");
  EXPECT_NE(plan().provenance.second_worker, "");
}

TEST_F(SecondBuildTest, OfThreeThatDifferNoneIsSentAway) {
  start();
  join("w1");
  join("w2").object_salt = "else";
  join("w3").object_salt = "still else";
  submit();
  ASSERT_EQ(client_->plan(), nullptr);
  EXPECT_TRUE(holds(failure(), "those of w3 differ from both")) << failure();
  for (const auto& worker : workers_) EXPECT_EQ(worker->refusals, 0u);
}

// Who could change one of them could change both, and users wait for the plan.
TEST_F(SecondBuildTest, WorkersOfOneMachineDoNotVouchForEachOther) {
  options_.listen = "ipc://" + options_.state + ".socket";
  start();
  join("w1");
  FakeWorker& second = join("w2");
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.second_worker, "");
  EXPECT_EQ(second.tasks.size(), 0u);
}

TEST_F(SecondBuildTest, AWorkerThatCannotCompileSaysNothing) {
  start();
  join("w1");
  FakeWorker& second = join("w2");
  second.judge = [](const common::Task&) { return TaskOutcome::kCompileError; };
  FakeWorker& third = join("w3");
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.second_worker, "w3");
  EXPECT_EQ(second.tasks.size(), 1u);
  EXPECT_EQ(third.tasks.size(), 1u);
}

TEST_F(SecondBuildTest, AWorkerThatGoesAwayIsNotWaitedFor) {
  start();
  FakeWorker& first = join("w1");
  FakeWorker& second = join("w2");
  second.answers_max = 0;
  client_ = std::make_unique<FakeClient>(endpoint());
  client_->submit(scripted_graph(8), request(1));
  ASSERT_TRUE(converse(peers(), [&] { return second.tasks.size() == 1; }));
  EXPECT_EQ(client_->plan(), nullptr) << "it was signed before the answer was there";
  second.bye();
  ASSERT_TRUE(converse(peers(), [&] { return client_->plan() != nullptr; }));
  EXPECT_EQ(plan().provenance.second_worker, "");
  EXPECT_EQ(first.tasks.size(), 1u);
}

TEST_F(SecondBuildTest, APlanNamesTheToolchainOfAWorkerThatLeftBeforeItWasKept) {
  start();
  FakeWorker& first = join("w1", {"a class", "cc 1", true});
  FakeWorker& second = join("w2", {"a class", "cc 1", true});
  second.answers_max = 0;
  ask();
  ASSERT_TRUE(converse(peers(), [&] { return second.tasks.size() == 1; }));
  first.bye();
  ASSERT_TRUE(converse(peers(), [&] {
    client_->send(common::StatusRequest{7, common::StatusTopic::kStatus});
    auto* status = client_->last<common::StatusReply>();
    return status != nullptr && holds(status->json, "\"workers\":1,");
  }));
  second.release();
  await_answer();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.worker, "w1");
  EXPECT_EQ(plan().provenance.toolchain, "cc 1");
}

TEST_F(SecondBuildTest, APlanNamesTheToolchainOfAWorkerThatANewCoordinatorHasNeverSeen) {
  start();
  join("w1", {"a class", "cc 1", true});
  FakeWorker& second = join("w2", {"a class", "cc 1", true});
  second.answers_max = 0;
  ask();
  ASSERT_TRUE(converse(peers(), [&] { return second.tasks.size() == 1; }));
  leave();
  stop();
  start();
  FakeWorker& other = join("w3", {"a class", "cc 2", true});
  submit();
  ASSERT_NE(client_->plan(), nullptr) << failure();
  EXPECT_EQ(plan().provenance.worker, "w1");
  EXPECT_EQ(plan().provenance.toolchain, "cc 1");
  EXPECT_EQ(other.tasks.size(), 0u) << "the journal has the result";
}

TEST_F(SecondBuildTest, PlansOfASearchThatGoesOnAreCompiledTwiceAsWell) {
  counters_->hands_out = true;
  start();
  FakeWorker& first = join("w1");
  first.answers_max = 1;  // the baseline
  FakeWorker& second = join("w2");
  second.judge = [](const common::Task& task) {
    return task.only_build ? TaskOutcome::kOk : TaskOutcome::kWrong;
  };
  client_ = std::make_unique<FakeClient>(endpoint());
  common::Graph graph = scripted_graph(8);
  client_->submit(graph, request());
  ASSERT_TRUE(converse(peers(), [&] { return counted("alike", 1); }));
  EXPECT_EQ(client_->plan(), nullptr) << "the search is over";
  first.release();
  ASSERT_TRUE(converse(peers(), [&] {
    return client_->plan() != nullptr || client_->last<common::JobFailed>() != nullptr;
  }));
}

}  // namespace
}  // namespace coordinator::service
