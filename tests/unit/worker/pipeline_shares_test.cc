// A worker of several coordinators: if these fail, one of them takes all slots, answers go to the
// wrong one, or a coordinator that is away keeps the others waiting.
#include "worker/agent/pipeline/pipeline_shares.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/socket.h"
#include "worker/agent/agents.h"

namespace worker {
namespace {

using common::TaskLease;

constexpr auto kPatience = std::chrono::minutes(10);

template <class Condition>
bool becomes(Condition condition) {
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Keeps what it is given until the test says that it is done.
class FakePipeline final : public Pipeline {
 public:
  void submit(Job job) override {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  bool cancel(const TaskLease& lease) override {
    std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const Job& job) { return job.lease == lease; });
    return false;
  }
  std::vector<TaskLease> cancel_waiting() override { return {}; }
  std::vector<JobResult> take_results() override {
    ready_.clear();
    std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
  }
  int results_fd() const override { return ready_.fd(); }

  size_t size() {
    std::lock_guard lock(mutex_);
    return jobs_.size();
  }
  // Ends the oldest, and returns its payload, which says whose it is; empty: there is none.
  common::Bytes end_oldest() {
    std::lock_guard lock(mutex_);
    if (jobs_.empty()) return {};
    JobResult result;
    result.message.lease = jobs_.front().lease;
    common::Bytes payload = jobs_.front().payload;
    jobs_.erase(jobs_.begin());
    results_.push_back(std::move(result));
    ready_.wake();
    return payload;
  }

 private:
  std::mutex mutex_;
  common::Waker ready_;
  std::vector<Job> jobs_;
  std::vector<JobResult> results_;
};

Job job(uint64_t task, size_t share) {
  Job made;
  made.lease = {task, 7};
  made.payload = {static_cast<std::byte>(share)};
  return made;
}

TEST(PipelineShares, SlotsGoRoundAndAnswersComeHome) {
  FakePipeline pipeline;
  PipelineShares shares(pipeline, 2, 2);
  // The same leases at both: coordinators number them by themselves.
  for (uint64_t task = 0; task < 6; ++task) shares.share(0).submit(job(task, 0));
  for (uint64_t task = 0; task < 3; ++task) shares.share(1).submit(job(task, 1));
  EXPECT_EQ(pipeline.size(), 2U);
  std::vector<int> order;
  std::map<size_t, std::vector<uint64_t>> answered;
  for (int ended = 0; ended < 9; ++ended) {
    ASSERT_TRUE(becomes([&] { return pipeline.size() == std::min<size_t>(2, 9 - ended); }));
    order.push_back(static_cast<int>(pipeline.end_oldest().at(0)));
    size_t share = static_cast<size_t>(order.back());
    std::vector<JobResult> results;
    ASSERT_TRUE(becomes([&] {
      results = shares.share(share).take_results();
      return !results.empty();
    }));
    ASSERT_EQ(results.size(), 1U);
    answered[share].push_back(results[0].message.lease.task_id);
    EXPECT_EQ(results[0].message.lease.epoch, 7U);
  }
  // Two of the first came while it was alone; from then on they take turns.
  EXPECT_EQ(order, (std::vector<int>{0, 0, 1, 0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(answered[0], (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(answered[1], (std::vector<uint64_t>{0, 1, 2}));
}

TEST(PipelineShares, ACancelledTaskMakesRoomAndAnswersNobody) {
  FakePipeline pipeline;
  PipelineShares shares(pipeline, 2, 1);
  shares.share(0).submit(job(1, 0));
  shares.share(0).submit(job(2, 0));
  shares.share(1).submit(job(1, 1));
  EXPECT_TRUE(shares.share(0).cancel({2, 7}));   // it waited
  EXPECT_FALSE(shares.share(0).cancel({1, 7}));  // it was begun
  ASSERT_EQ(pipeline.size(), 1U);
  EXPECT_EQ(pipeline.end_oldest().at(0), std::byte{1});
  ASSERT_TRUE(becomes([&] { return !shares.share(1).take_results().empty(); }));
  EXPECT_TRUE(shares.share(0).take_results().empty());
}

TEST(PipelineShares, WhatWaitsIsGivenBack) {
  FakePipeline pipeline;
  PipelineShares shares(pipeline, 2, 1);
  shares.share(0).submit(job(1, 0));
  shares.share(0).submit(job(2, 0));
  shares.share(1).submit(job(3, 1));
  EXPECT_EQ(shares.share(0).cancel_waiting(), (std::vector<TaskLease>{{2, 7}}));
  EXPECT_EQ(pipeline.size(), 1U);
  (void)pipeline.end_oldest();
  ASSERT_TRUE(becomes([&] { return pipeline.size() == 1; }));
  EXPECT_EQ(pipeline.end_oldest().at(0), std::byte{1});
}

// A coordinator that gives tasks to whoever has credit.
class Coordinator {
 public:
  Coordinator(common::WireContext& context, const std::string& endpoint) {
    common::RouterOptions options;
    options.endpoint = endpoint;
    auto router = common::RouterSocket::bind(context, options);
    auto end = std::chrono::steady_clock::now() + kPatience;
    // An earlier socket at the same endpoint closes in the background.
    while (!router.ok() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      router = common::RouterSocket::bind(context, options);
    }
    router_.emplace(std::move(*router));
  }
  const std::string& endpoint() const { return router_->endpoint(); }
  void talk() {
    std::vector<common::Arrival> arrivals;
    router_->receive(arrivals, 64);
    for (common::Arrival& arrival : arrivals) {
      if (!arrival.packet.ok()) continue;
      const common::Message& message = arrival.packet->message;
      if (std::holds_alternative<common::WorkerHello>(message)) {
        common::Welcome welcome;
        welcome.coordinator_id = "c";
        welcome.heartbeat_ms = 50;
        welcome.compiler_epoch = "1";
        router_->send(arrival.peer, welcome);
      } else if (const auto* credit = std::get_if<common::Credit>(&message)) {
        for (uint32_t k = 0; k < credit->count && has_work; ++k) {
          common::Task task;
          task.lease = {++tasks_, 1};
          task.deadline_ms = 600'000;
          router_->send(arrival.peer, task);
        }
      } else if (std::holds_alternative<common::TaskResult>(message)) {
        ++answered;
      }
    }
  }

  bool has_work = true;
  size_t answered = 0;

 private:
  std::optional<common::RouterSocket> router_;
  uint64_t tasks_ = 0;
};

TEST(SeveralCoordinators, AreServedWhileOneIsAwayAndWhenItIsBack) {
  common::WireContext context;
  common::SteadyClock clock;
  FakePipeline pipeline;
  common::Waker stop;
  Coordinator stays(context, "tcp://127.0.0.1:*");
  std::optional<Coordinator> goes(std::in_place, context, "tcp://127.0.0.1:*");
  std::string endpoint = goes->endpoint();
  std::vector<common::DealerSocket> sockets;
  for (const std::string& one : {stays.endpoint(), endpoint}) {
    auto socket = common::DealerSocket::connect(context, {one, std::nullopt, nullptr});
    ASSERT_TRUE(socket.ok());
    sockets.push_back(std::move(*socket));
  }
  AgentState state;
  AgentOptions options;
  options.worker_id = "w1";
  options.target = "cpu-test";
  options.slots = 2;
  options.drain_ms = 0;
  options.state = &state;
  common::Status status;
  std::thread worker([&] {
    status = serve_coordinators(std::move(sockets), pipeline, options, clock, stop.fd());
  });
  auto talk_until = [&](const std::function<bool()>& done) {
    return becomes([&] {
      stays.talk();
      if (goes) goes->talk();
      (void)pipeline.end_oldest();
      return done();
    });
  };
  // The one does not take all from the other.
  ASSERT_TRUE(talk_until([&] { return stays.answered >= 20 && goes->answered >= 20; }));
  goes.reset();
  size_t before = stays.answered;
  EXPECT_TRUE(talk_until([&] { return stays.answered >= before + 20; }));
  goes.emplace(context, endpoint);
  EXPECT_TRUE(talk_until([&] { return goes->answered >= 5; }));
  EXPECT_TRUE(state.is_joined);
  // Of all agents together.
  EXPECT_GE(state.answered[static_cast<size_t>(common::TaskOutcome::kOk)],
            stays.answered + goes->answered);
  stop.wake();
  worker.join();
  EXPECT_TRUE(status.ok()) << status.error().message;
}

}  // namespace
}  // namespace worker
