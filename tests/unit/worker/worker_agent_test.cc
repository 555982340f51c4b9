// The agent against a scripted coordinator and a scripted pipeline: leases, credits, blobs,
// deadlines, reconnection and draining.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "worker/agent/agent.h"

namespace worker {
namespace {

using common::Message;
using common::TaskLease;
using common::TaskOutcome;

constexpr int kPatienceMs = 600'000;

// Keeps what it gets; the test finishes jobs by hand.
class ScriptedPipeline final : public Pipeline {
 public:
  void submit(Job job) override {
    std::lock_guard lock(mutex_);
    jobs_[job.lease] = std::move(job);
  }
  bool cancel(const TaskLease& lease) override {
    std::lock_guard lock(mutex_);
    cancelled_.insert(lease);
    jobs_.erase(lease);
    return lease != on_device_;
  }
  std::vector<TaskLease> cancel_waiting() override {
    std::lock_guard lock(mutex_);
    std::vector<TaskLease> leases;
    for (auto it = jobs_.begin(); it != jobs_.end();) {
      if (it->first == on_device_) {
        ++it;
      } else {
        leases.push_back(it->first);
        it = jobs_.erase(it);
      }
    }
    return leases;
  }
  std::vector<JobResult> take_results() override {
    std::lock_guard lock(mutex_);
    ready_.clear();
    return std::exchange(results_, {});
  }
  int results_fd() const override { return ready_.fd(); }

  void finish(const TaskLease& lease, const common::Bytes& object) {
    std::lock_guard lock(mutex_);
    JobResult result;
    result.message.lease = lease;
    auto bytes = std::make_shared<const common::Bytes>(object);
    result.message.blobs = {common::digest_of(object)};
    result.blobs[common::digest_of(object)] = bytes;
    jobs_.erase(lease);
    results_.push_back(std::move(result));
    ready_.wake();
  }
  void put_on_device(const TaskLease& lease) {
    std::lock_guard lock(mutex_);
    on_device_ = lease;
  }
  bool has(const TaskLease& lease) {
    std::lock_guard lock(mutex_);
    return jobs_.count(lease) != 0;
  }
  bool was_cancelled(const TaskLease& lease) {
    std::lock_guard lock(mutex_);
    return cancelled_.count(lease) != 0;
  }

 private:
  mutable std::mutex mutex_;
  common::Waker ready_;
  std::map<TaskLease, Job> jobs_;
  std::set<TaskLease> cancelled_;
  TaskLease on_device_;
  std::vector<JobResult> results_;
};

// One router and one agent, joined by loopback TCP.
class AgentTest : public testing::Test {
 protected:
  void SetUp() override { bind("tcp://127.0.0.1:*"); }

  void TearDown() override {
    stop_.wake();
    if (thread_.joinable()) thread_.join();
  }

  void bind(const std::string& endpoint) {
    common::RouterOptions options;
    options.endpoint = endpoint;
    auto router = common::RouterSocket::bind(context_, options);
    // An earlier socket at the same endpoint closes in the background.
    int64_t end = clock_.now_ns() + int64_t{kPatienceMs} * 1'000'000;
    while (!router.ok() && clock_.now_ns() < end) {
      std::this_thread::yield();
      router = common::RouterSocket::bind(context_, options);
    }
    ASSERT_TRUE(router.ok()) << router.error().message;
    router_ = std::make_unique<common::RouterSocket>(std::move(router).value());
    endpoint_ = router_->endpoint();
  }

  void start_agent(AgentOptions options = {}) {
    options.worker_id = "w1";
    options.target = "cpu-test";
    auto socket = common::DealerSocket::connect(context_, {endpoint_, std::nullopt, nullptr});
    ASSERT_TRUE(socket.ok());
    thread_ = std::thread([this, options, s = std::move(*socket)]() mutable {
      Agent agent(std::move(s), pipeline_, options, clock_);
      status_ = agent.run(stop_.fd());
      ended_ = true;
    });
  }

  // The next message of type T; others are kept in `skipped_` (heartbeats are dropped).
  template <class T>
  T expect(common::SharedBytes* blob = nullptr) {
    int64_t end = clock_.now_ns() + int64_t{kPatienceMs} * 1'000'000;
    while (clock_.now_ns() < end) {
      for (size_t k = 0; k < inbox_.size(); ++k) {
        if (const T* found = std::get_if<T>(&inbox_[k].message)) {
          T result = *found;
          if (blob != nullptr) *blob = inbox_[k].blob;
          inbox_.erase(inbox_.begin() + static_cast<std::ptrdiff_t>(k));
          return result;
        }
      }
      pump();
    }
    ADD_FAILURE() << "the agent did not send a " << common::message_name(Message(T{}));
    return T{};
  }

  void pump() {
    common::Poller poller;
    poller.watch(*router_);
    ASSERT_TRUE(poller.wait(20).ok());
    std::vector<common::Arrival> arrivals;
    router_->receive(arrivals, 100);
    for (common::Arrival& arrival : arrivals) {
      ASSERT_TRUE(arrival.packet.ok()) << arrival.packet.error().message;
      peer_ = arrival.peer;
      if (std::holds_alternative<common::Heartbeat>(arrival.packet->message) && drop_heartbeats_) {
        continue;
      }
      inbox_.push_back(std::move(arrival.packet).value());
    }
  }

  // Pumps until `condition` holds.
  template <class Condition>
  void wait_for(Condition condition, const char* what) {
    int64_t end = clock_.now_ns() + int64_t{kPatienceMs} * 1'000'000;
    while (!condition()) {
      if (clock_.now_ns() >= end) {
        FAIL() << "waited in vain for: " << what;
      }
      pump();
    }
  }

  void send(const Message& message, const common::SharedBytes& blob = {}) {
    EXPECT_EQ(router_->send(peer_, message, blob), common::SendOutcome::kSent);
  }
  void welcome(uint32_t heartbeat_ms = 50) {
    common::Welcome message;
    message.coordinator_id = "c1";
    message.heartbeat_ms = heartbeat_ms;
    message.compiler_epoch = "1";
    send(message);
  }
  void join(AgentOptions options = {}) {
    start_agent(options);
    common::WorkerHello hello = expect<common::WorkerHello>();
    EXPECT_EQ(hello.worker_id, "w1");
    EXPECT_EQ(hello.target, "cpu-test");
    EXPECT_EQ(hello.slots, options.slots);
    welcome();
    EXPECT_EQ(expect<common::Credit>().count, options.slots);
  }
  TaskLease send_task(uint64_t id, std::vector<common::Digest> blobs = {},
                      uint32_t deadline_ms = 60'000) {
    common::Task task;
    task.lease = {id, 1};
    task.deadline_ms = deadline_ms;
    task.payload = common::to_bytes(common::as_bytes("payload"));
    task.blobs = std::move(blobs);
    send(task);
    return task.lease;
  }
  void stop_and_join() {
    stop_.wake();
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_.error().message;
  }

  common::SteadyClock clock_;
  common::WireContext context_;
  ScriptedPipeline pipeline_;
  std::unique_ptr<common::RouterSocket> router_;
  std::string endpoint_;
  std::string peer_;
  std::vector<common::Packet> inbox_;
  bool drop_heartbeats_ = true;
  common::Waker stop_;
  std::thread thread_;
  common::Status status_;
  std::atomic<bool> ended_{false};
};

TEST_F(AgentTest, FetchesBlobsOnceRunsAndServesObjects) {
  join();
  common::Bytes graph = common::to_bytes(common::as_bytes("graph"));
  common::Digest digest = common::digest_of(graph);
  TaskLease first = send_task(1, {digest}), second = send_task(2, {digest});
  EXPECT_EQ(expect<common::BlobRequest>().digest, digest);
  send(common::Blob{digest}, common::share(graph));
  wait_for([&] { return pipeline_.has(first) && pipeline_.has(second); }, "both jobs");
  TaskLease third = send_task(3, {digest});  // needs no request: the graph is there
  wait_for([&] { return pipeline_.has(third); }, "the third job");
  for (const common::Packet& packet : inbox_) {
    EXPECT_FALSE(std::holds_alternative<common::BlobRequest>(packet.message));
  }

  common::Bytes object = common::to_bytes(common::as_bytes("object"));
  pipeline_.finish(first, object);
  common::TaskResult result = expect<common::TaskResult>();
  EXPECT_EQ(result.lease, first);
  EXPECT_EQ(result.outcome, TaskOutcome::kOk);
  EXPECT_EQ(expect<common::Credit>().count, 1u);
  ASSERT_EQ(result.blobs.size(), 1u);
  send(common::BlobRequest{result.blobs[0]});
  common::SharedBytes bytes;
  EXPECT_EQ(expect<common::Blob>(&bytes).digest, common::digest_of(object));
  EXPECT_EQ(common::as_text(bytes.bytes), "object");
  send(common::BlobRequest{common::digest_of("nobody has this")});
  EXPECT_EQ(expect<common::BlobMissing>().digest, common::digest_of("nobody has this"));
}

TEST_F(AgentTest, HeartbeatsNameEveryLease) {
  drop_heartbeats_ = false;
  join();
  EXPECT_TRUE(expect<common::Heartbeat>().leases.empty());
  TaskLease a = send_task(7), b = send_task(8);
  wait_for([&] { return pipeline_.has(a) && pipeline_.has(b); }, "both jobs");
  inbox_.clear();
  wait_for(
      [&] {
        return expect<common::Heartbeat>().leases == (std::vector<TaskLease>{a, b});
      },
      "a heartbeat with both leases");
}

TEST_F(AgentTest, MissingBlobIsAnInfraFailure) {
  join();
  common::Digest digest = common::digest_of("gone");
  TaskLease lease = send_task(1, {digest});
  expect<common::BlobRequest>();
  send(common::BlobMissing{digest});
  common::TaskResult result = expect<common::TaskResult>();
  EXPECT_EQ(result.lease, lease);
  EXPECT_EQ(result.outcome, TaskOutcome::kInfra);
}

TEST_F(AgentTest, RevokedTasksAreCancelledAndNotAnswered) {
  join();
  TaskLease lease = send_task(1);
  wait_for([&] { return pipeline_.has(lease); }, "the job");
  send(common::Revoke{lease});
  wait_for([&] { return pipeline_.was_cancelled(lease); }, "the cancellation");
  pipeline_.finish(lease, {});
  TaskLease other = send_task(2);
  wait_for([&] { return pipeline_.has(other); }, "the other job");
  pipeline_.finish(other, {});
  EXPECT_EQ(expect<common::TaskResult>().lease, other);
}

TEST_F(AgentTest, LateTasksAreAnsweredBeforeTheirDeadline) {
  AgentOptions options;
  options.answer_early_ms = 0;
  join(options);
  TaskLease running = {1, 1};
  pipeline_.put_on_device(running);
  send_task(1, {}, 200);
  EXPECT_EQ(expect<common::TaskResult>().lease, running);
  EXPECT_TRUE(pipeline_.was_cancelled(running));
  TaskLease waiting = send_task(2, {}, 200);
  EXPECT_EQ(expect<common::LeaseReturned>().lease, waiting);
}

TEST_F(AgentTest, TasksBeyondTheSlotsAreReturned) {
  AgentOptions options;
  options.slots = 1;
  join(options);
  send_task(1);
  TaskLease extra = send_task(2);
  EXPECT_EQ(expect<common::LeaseReturned>().lease, extra);
}

TEST_F(AgentTest, SaysHelloAgainWhenTheCoordinatorForgotIt) {
  join();
  TaskLease lease = send_task(1);
  wait_for([&] { return pipeline_.has(lease); }, "the job");
  send(common::Refused{common::Code::kUnavailable, "say hello"});
  expect<common::WorkerHello>();
  pipeline_.finish(lease, {});
  // Nothing but hellos while the coordinator has not answered.
  welcome();
  EXPECT_EQ(expect<common::TaskResult>().lease, lease);
}

TEST_F(AgentTest, ReconnectsWhenTheCoordinatorRestarts) {
  join();
  TaskLease lease = send_task(1);
  wait_for([&] { return pipeline_.has(lease); }, "the job");
  std::string endpoint = endpoint_;
  router_.reset();
  inbox_.clear();
  bind(endpoint);
  expect<common::WorkerHello>();
  pipeline_.finish(lease, {});  // must wait for the welcome
  welcome();
  EXPECT_EQ(expect<common::TaskResult>().lease, lease);
}

TEST_F(AgentTest, GivesUpWhenRefusedForGood) {
  start_agent();
  expect<common::WorkerHello>();
  send(common::Refused{common::Code::kInvalidInput, "another protocol"});
  thread_.join();
  ASSERT_FALSE(status_.ok());
  EXPECT_EQ(status_.error().code, common::Code::kInvalidInput);
}

TEST_F(AgentTest, DrainReturnsWaitingTasksAndFinishesTheRunningOne) {
  join();
  TaskLease running = send_task(1), waiting = send_task(2);
  TaskLease incomplete = send_task(3, {common::digest_of("slow blob")});
  wait_for([&] { return pipeline_.has(running) && pipeline_.has(waiting); }, "the jobs");
  expect<common::BlobRequest>();
  pipeline_.put_on_device(running);
  stop_.wake();
  std::set<TaskLease> returned = {expect<common::LeaseReturned>().lease,
                                  expect<common::LeaseReturned>().lease};
  EXPECT_EQ(returned, (std::set<TaskLease>{waiting, incomplete}));
  TaskLease late = send_task(4);
  EXPECT_EQ(expect<common::LeaseReturned>().lease, late);
  EXPECT_FALSE(ended_);
  pipeline_.finish(running, {});
  EXPECT_EQ(expect<common::TaskResult>().lease, running);
  expect<common::WorkerBye>();
  stop_and_join();
  for (const common::Packet& packet : inbox_) {
    EXPECT_FALSE(std::holds_alternative<common::Credit>(packet.message)) << "credit while draining";
  }
}

TEST_F(AgentTest, DrainReturnsARunningTaskThatTakesTooLong) {
  AgentOptions options;
  options.drain_ms = 100;
  join(options);
  TaskLease running = send_task(1);
  wait_for([&] { return pipeline_.has(running); }, "the job");
  pipeline_.put_on_device(running);
  send(common::DrainRequest{});
  EXPECT_EQ(expect<common::LeaseReturned>().lease, running);
  expect<common::WorkerBye>();
  stop_and_join();
}

TEST_F(AgentTest, SaysGoodbyeToWhomItHasGreeted) {
  start_agent();
  expect<common::WorkerHello>();
  stop_.wake();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it is told before it is welcomed
  welcome();
  expect<common::WorkerBye>();
  stop_and_join();
}

TEST_F(AgentTest, EndsWhereNobodyAnswersItsHello) {
  start_agent();
  expect<common::WorkerHello>();
  stop_and_join();
}

TEST_F(AgentTest, DrainsWithoutACoordinator) {
  router_.reset();
  start_agent();
  stop_and_join();
}

TEST(BlobCache, KeepsTheNewestWithinItsBound) {
  BlobCache cache(10);
  auto blob = [](const char* text) {
    return common::share(common::to_bytes(common::as_bytes(text)));
  };
  cache.insert(common::digest_of("a"), blob("aaaa"));
  cache.insert(common::digest_of("b"), blob("bbbb"));
  EXPECT_TRUE(cache.find(common::digest_of("a")));  // now newer than b
  cache.insert(common::digest_of("c"), blob("cccc"));
  EXPECT_TRUE(cache.find(common::digest_of("a")));
  EXPECT_FALSE(cache.find(common::digest_of("b")));
  cache.insert(common::digest_of("d"), blob("a blob larger than the cache"));
  EXPECT_TRUE(cache.find(common::digest_of("d")));
  EXPECT_FALSE(cache.find(common::digest_of("a")));
  EXPECT_EQ(cache.bytes(), 28u);
}

}  // namespace
}  // namespace worker
