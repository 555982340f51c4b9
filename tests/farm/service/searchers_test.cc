// Searches in processes of their own: if these fail, a plan depends on where its search was, a
// searcher's end is the end of its jobs, or a search goes on with what a broken searcher says.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/hlir/builder.h"
#include "common/process/subprocess.h"
#include "common/wire/frames/frames.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/inspect/replay.h"
#include "coordinator/service/searchers/search_frames.h"
#include "tests/farm/service/service_farm.h"
#include "tests/paths/paths.h"

namespace coordinator::service {
namespace {

using common::cat;

constexpr uint64_t kBudget = 40;

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

class SearchersTest : public ServiceTest {
 protected:
  SearchersTest() {
    options_.create_search = JobSearch::create;
    options_.searchers.listen = "tcp://127.0.0.1:*";
    options_.searchers.seat_wait_ms = 100;
  }

  common::Subprocess& start_searcher(std::vector<std::string> more = {}) {
    common::SpawnOptions options;
    options.arguments = {paths::binaries("/lfarm-coordinator"),
                         "--role=search",
                         "--coordinator",
                         service().searchers_endpoint(),
                         "--searches",
                         "2",
                         "--log",
                         "warning"};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    auto process = common::Subprocess::start(options);
    if (!process.ok()) throw std::runtime_error(process.error().message);
    processes_.push_back(std::make_unique<common::Subprocess>(std::move(process).value()));
    return *processes_.back();
  }
  void kill(common::Subprocess& searcher) {
    searcher.send_signal(SIGKILL);
    searcher.wait(-1);
  }
  // Of monitoring; -1 where it is missing.
  double metric(const std::string& name) {
    std::string text = "\n" + service().metrics().value_or("");
    size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  bool wait_until(const std::function<bool()>& holds) {
    for (int turn = 0; turn < 60'000; ++turn) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool wait_for_searchers(double count) {
    return wait_until([&] { return metric("lfarm_searchers") == count; });
  }

  // The worker answers `answers_max` tasks, and the others once it is released.
  struct Peers {
    Peers(const std::string& endpoint, size_t answers_max)
        : worker(endpoint, "w1", kTestTarget, 4), client(endpoint) {
      worker.answers_max = answers_max;
      client.submit(two_layers(), request(kBudget));
    }
    bool until(const std::function<bool()>& done) { return converse({&worker, &client}, done); }
    bool until_half() {
      return until([&] {
        const auto* progress = client.last<common::Progress>();
        return progress != nullptr && progress->candidates_done >= worker.answers_max;
      });
    }
    bool until_plan() {
      worker.release();
      return until(
          [&] { return client.plan() != nullptr || client.last<common::JobFailed>() != nullptr; });
    }
    // What the search has found: the plan without the hour and the job's number of candidates sent.
    common::Digest found() const {
      if (client.plan() == nullptr) return {};
      auto sealed = common::decode_sealed(client.plan()->blob.bytes);
      auto grant = common::decode_grant(sealed.value().bytes);
      common::Plan plan = common::decode_plan(grant.value().plan).value();
      plan.provenance.created_ns = 0;
      return common::digest_of(common::encode_plan(plan));
    }
    FakeWorker worker;
    FakeClient client;
  };

  // The plan of a search that nothing disturbs, in the coordinator, with a farm of its own.
  common::Digest found_inside() {
    ServiceOptions kept = options_;
    options_.searchers.listen = "";
    options_.state += "-inside";
    start();
    Peers peers(endpoint(), SIZE_MAX);
    EXPECT_TRUE(peers.until_plan());
    stop();
    options_ = kept;
    return peers.found();
  }

  // How the job's journal differs from what a search inside makes of it; empty: not at all.
  std::string replayed(uint64_t job) {
    auto store = cache::Store::open(options_.state);
    if (!store.ok()) return store.error().message;
    auto replay = replay_job(**store, job, JobSearch::create);
    return replay.ok() ? replay->difference : replay.error().message;
  }

 private:
  std::vector<std::unique_ptr<common::Subprocess>> processes_;
};

TEST_F(SearchersTest, ASearchElsewhereComesToTheSamePlan) {
  common::Digest inside = found_inside();
  start();
  start_searcher();
  ASSERT_TRUE(wait_for_searchers(1));
  EXPECT_EQ(metric("lfarm_searches_max"), 2);
  Peers peers(endpoint(), 15);
  ASSERT_TRUE(peers.until_half());
  EXPECT_EQ(metric("lfarm_searches_apart"), 1);
  ASSERT_TRUE(peers.until_plan());
  EXPECT_EQ(peers.found(), inside);
  EXPECT_FALSE(inside.is_zero());
  EXPECT_EQ(metric("lfarm_searchers_lost"), 0);
  uint64_t job = peers.client.last<common::PlanReady>()->job_id;
  EXPECT_TRUE(wait_until([&] { return metric("lfarm_searches_apart") == 0; }));
  stop();
  EXPECT_EQ(replayed(job), "");
}

TEST_F(SearchersTest, AKilledSearchersJobGoesOnAtAnother) {
  common::Digest inside = found_inside();
  start();
  common::Subprocess& first = start_searcher();
  ASSERT_TRUE(wait_for_searchers(1));
  Peers peers(endpoint(), 15);
  ASSERT_TRUE(peers.until_half());
  size_t sent = peers.worker.tasks.size();
  start_searcher();
  ASSERT_TRUE(wait_for_searchers(2));
  kill(first);
  ASSERT_TRUE(peers.until_plan());
  EXPECT_EQ(metric("lfarm_searchers_lost"), 1);
  EXPECT_EQ(peers.found(), inside);
  // Nothing was measured twice: candidates, and a comparison.
  EXPECT_GT(sent, 15u);
  EXPECT_EQ(peers.worker.tasks.size(), kBudget + 1);
  uint64_t job = peers.client.last<common::PlanReady>()->job_id;
  stop();
  EXPECT_EQ(replayed(job), "");
}

TEST_F(SearchersTest, WithoutAnotherItGoesOnInTheCoordinator) {
  common::Digest inside = found_inside();
  start();
  common::Subprocess& only = start_searcher();
  ASSERT_TRUE(wait_for_searchers(1));
  Peers peers(endpoint(), 15);
  ASSERT_TRUE(peers.until_half());
  kill(only);
  ASSERT_TRUE(peers.until_plan());
  EXPECT_EQ(metric("lfarm_searchers"), 0);
  EXPECT_EQ(peers.found(), inside);
  EXPECT_EQ(peers.worker.tasks.size(), kBudget + 1);
}

// Its connection is there, and nothing comes.
TEST_F(SearchersTest, ASearcherThatHangsIsLost) {
  common::Digest inside = found_inside();
  options_.searchers.silence_ms = 3'000;
  start();
  common::Subprocess& only = start_searcher();
  ASSERT_TRUE(wait_for_searchers(1));
  Peers peers(endpoint(), 15);
  ASSERT_TRUE(peers.until_half());
  only.send_signal(SIGSTOP);
  ASSERT_TRUE(peers.until_plan());
  EXPECT_EQ(metric("lfarm_searchers_lost"), 1);
  EXPECT_EQ(peers.found(), inside);
  kill(only);
}

// A searcher that this test speaks for.
class FakeSearcher {
 public:
  explicit FakeSearcher(const std::string& endpoint)
      : dealer_(common::FrameDealer::connect(context_, endpoint, std::nullopt).value()) {}
  void send(FrameKind kind, uint64_t search, std::string body) {
    dealer_.send(search_frame(kind, search, std::move(body)));
  }
  void hello(const std::string& build = searcher_build()) {
    send(FrameKind::kHello, 0, encode(SearcherHello{build, "fake", 1}));
  }
  // The next frame, by its kind; its search in `search`.
  FrameKind next(uint64_t* search = nullptr) {
    std::vector<common::SharedBytes> frames;
    while (frames.empty()) {
      dealer_.wait(100, waker_.fd());
      dealer_.receive(frames, 1);
      send(FrameKind::kBeat, 0, encode(SearcherBeat{}));
    }
    SearchFrame frame = parse_frame(common::as_text(frames[0].bytes)).value();
    if (search != nullptr) *search = frame.search;
    return frame.kind;
  }

 private:
  common::WireContext context_;
  common::Waker waker_;
  common::FrameDealer dealer_;
};

TEST_F(SearchersTest, WhatABrokenSearcherSaysIsNotBelieved) {
  start();
  FakeSearcher broken(service().searchers_endpoint());
  broken.hello();
  ASSERT_EQ(broken.next(), FrameKind::kWelcome);
  Peers peers(endpoint(), SIZE_MAX);
  uint64_t search = 0;
  std::thread conversation([&] {
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kOpened, search, encode(SearchOpened{}));
    EXPECT_EQ(broken.next(), FrameKind::kAdvance);
    broken.send(FrameKind::kStepped, search, "no step");
    // The place is given up, and this searcher asked once more.
    EXPECT_EQ(broken.next(), FrameKind::kClose);
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kWelcome, search, "");
    EXPECT_EQ(broken.next(), FrameKind::kClose);
    // And a third time, the last one.
    EXPECT_EQ(broken.next(&search), FrameKind::kOpen);
    broken.send(FrameKind::kOpened, search, "nothing");
    EXPECT_EQ(broken.next(), FrameKind::kClose);
  });
  bool ended = peers.until([&] {
    return peers.client.plan() != nullptr || peers.client.last<common::JobFailed>() != nullptr;
  });
  conversation.join();
  ASSERT_TRUE(ended);
  ASSERT_NE(peers.client.last<common::JobFailed>(), nullptr);
  EXPECT_NE(peers.client.last<common::JobFailed>()->message.find("has lost 3 searchers"),
            std::string::npos)
      << peers.client.last<common::JobFailed>()->message;
}

TEST_F(SearchersTest, ASearcherOfAnotherBuildIsRefused) {
  start();
  FakeSearcher other(service().searchers_endpoint());
  other.hello("lfarm 9.9.9");
  EXPECT_EQ(other.next(), FrameKind::kRefused);
  EXPECT_EQ(metric("lfarm_searchers"), 0);
  EXPECT_EQ(metric("lfarm_searches_max"), 4);
}

// A job that its coordinator left behind begins at a searcher with what was measured.
TEST_F(SearchersTest, AJobOfAnEarlierCoordinatorGoesOnAtASearcher) {
  common::Digest inside = found_inside();
  start();
  {
    Peers peers(endpoint(), 15);
    ASSERT_TRUE(peers.until_half());
  }
  stop();
  start();
  start_searcher();
  ASSERT_TRUE(wait_for_searchers(1));
  Peers peers(endpoint(), SIZE_MAX);
  ASSERT_TRUE(peers.until_plan());
  EXPECT_EQ(peers.found(), inside);
  EXPECT_EQ(peers.worker.tasks.size(), kBudget + 1 - 15);
}

}  // namespace
}  // namespace coordinator::service
