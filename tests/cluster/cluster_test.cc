// Of several coordinators one leads, and idle workers say so: if these fail, two coordinators may
// serve at once, or scaling in ends workers that are busy.
#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/random.h"
#include "common/kubernetes/leader_lease.h"
#include "tests/cluster/fake_cluster.h"
#include "worker/agent/observe/deletion_cost.h"

namespace cluster_testing {
namespace {

using common::Cluster;
using common::Code;
using common::LeaderLease;

constexpr int64_t kMs = 1'000'000;

class HandClock final : public common::Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void pass_ms(int64_t ms) { now_ns_ += ms * kMs; }

 private:
  std::atomic<int64_t> now_ns_{1'000 * kMs};
};

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    cluster_ = FakeCluster::start(scratch_.path());
    if (!cluster_) GTEST_SKIP() << "no openssl on this machine to make a certificate with";
  }
  Cluster found() {
    auto cluster = Cluster::find(cluster_->options());
    EXPECT_TRUE(cluster.ok()) << cluster.error().message;
    return std::move(cluster).value();
  }
  LeaderLease candidate(const std::string& identity, int64_t lease_ms = 15'000) {
    common::LeaderOptions options;
    options.last(lease_ms);
    options.lease = "coordinator";
    options.identity = identity;
    return LeaderLease(found(), options, clock_);
  }
  static bool tend(LeaderLease& lease) { return lease.tend(1'700'000'000'000'000); }

  common::ScratchDirectory scratch_ = common::ScratchDirectory::create("lfarm-cluster").value();
  std::unique_ptr<FakeCluster> cluster_;
  HandClock clock_;
};

TEST_F(ClusterTest, TheFirstLeadsAndTheOthersWait) {
  LeaderLease a = candidate("a"), b = candidate("b");
  EXPECT_TRUE(tend(a));
  EXPECT_FALSE(tend(b));
  EXPECT_EQ(b.holder(), "a");
  EXPECT_EQ(cluster_->holder("coordinator"), "a");
  for (int round = 0; round < 30; ++round) {
    clock_.pass_ms(2'000);
    EXPECT_TRUE(tend(a)) << a.last().error().message;
    EXPECT_FALSE(tend(b));
  }
  EXPECT_EQ(cluster_->transitions("coordinator"), 0);
}

// What is written down as the time is for people: no setting of a machine's clock moves the lease.
TEST_F(ClusterTest, WallClocksThatJumpNeitherLoseNorKeepALease) {
  LeaderLease a = candidate("a"), b = candidate("b");
  common::Random random(7);
  constexpr int64_t kDaysUs = int64_t{86'400} * 1'000'000;
  auto wall_us = [&] {
    return 1'700'000'000'000'000 + static_cast<int64_t>(random.below(800 * kDaysUs)) -
           400 * kDaysUs;
  };
  ASSERT_TRUE(a.tend(wall_us()));
  for (int round = 0; round < 60; ++round) {
    clock_.pass_ms(2'000);
    EXPECT_TRUE(a.tend(wall_us())) << a.last().error().message;
    EXPECT_FALSE(b.tend(wall_us()));
  }
  EXPECT_EQ(cluster_->transitions("coordinator"), 0);
  for (int64_t waited = 2'000; waited < 15'000; waited += 2'000) {
    clock_.pass_ms(2'000);
    EXPECT_FALSE(b.tend(wall_us())) << waited;
  }
  clock_.pass_ms(2'000);
  EXPECT_TRUE(b.tend(wall_us()));
}

TEST_F(ClusterTest, ALeaderThatFallsSilentIsReplacedOnceItsTimeIsUp) {
  LeaderLease a = candidate("a"), b = candidate("b");
  ASSERT_TRUE(tend(a));
  ASSERT_FALSE(tend(b));
  for (int64_t waited = 2'000; waited < 15'000; waited += 2'000) {
    clock_.pass_ms(2'000);
    EXPECT_FALSE(tend(b)) << waited;
  }
  clock_.pass_ms(2'000);
  EXPECT_TRUE(tend(b));
  EXPECT_EQ(cluster_->holder("coordinator"), "b");
  EXPECT_EQ(cluster_->transitions("coordinator"), 1);
  // It wakes up, and sees that it was replaced.
  EXPECT_FALSE(tend(a));
}

TEST_F(ClusterTest, ALeaderWithoutTheApiGivesUpBeforeAnyoneMayReplaceIt) {
  LeaderLease a = candidate("a");
  ASSERT_TRUE(tend(a));
  cluster_->fail_with(500);
  clock_.pass_ms(8'000);
  EXPECT_TRUE(tend(a));
  EXPECT_EQ(a.last().error().code, Code::kUnavailable);
  clock_.pass_ms(3'000);
  EXPECT_FALSE(tend(a));  // 11 s after its last renewal; others wait for 15
  cluster_->fail_with(0);
  clock_.pass_ms(2'000);
  EXPECT_TRUE(tend(a));  // nobody took it meanwhile
}

TEST_F(ClusterTest, AShorterLeaseIsGivenUpAndTakenOverSooner) {
  LeaderLease a = candidate("a", 6'000), b = candidate("b", 6'000);
  ASSERT_TRUE(tend(a));
  ASSERT_FALSE(tend(b));
  cluster_->fail_with(500);
  clock_.pass_ms(3'999);
  EXPECT_TRUE(tend(a));
  clock_.pass_ms(1);
  EXPECT_FALSE(tend(a));
  cluster_->fail_with(0);
  clock_.pass_ms(1'999);
  EXPECT_FALSE(tend(b)) << "not before the whole lease";
  clock_.pass_ms(801);
  EXPECT_TRUE(tend(b)) << "at its next attempt";
  EXPECT_FALSE(tend(a));
}

TEST_F(ClusterTest, AHolderWhoseClockIsWrongIsJudgedByWhatItDoes) {
  cluster_->put_lease("coordinator", "old", 15);  // renewed in a far past
  LeaderLease a = candidate("a");
  EXPECT_FALSE(tend(a));
  for (int round = 0; round < 5; ++round) {
    clock_.pass_ms(10'000);
    cluster_->put_lease("coordinator", "old", 15);
    EXPECT_FALSE(tend(a)) << "it still renews";
  }
  clock_.pass_ms(15'000);
  EXPECT_TRUE(tend(a));
}

TEST_F(ClusterTest, ALeaseThatIsGivenUpIsTakenAtOnce) {
  LeaderLease a = candidate("a"), b = candidate("b");
  ASSERT_TRUE(tend(a));
  ASSERT_FALSE(tend(b));
  a.release(1'700'000'000'000'001);
  clock_.pass_ms(2'000);
  EXPECT_TRUE(tend(b));
}

TEST_F(ClusterTest, OfTwoThatWriteAtOnceOneWins) {
  Cluster cluster = found();
  common::LeaseRecord record;
  record.holder = "a";
  record.duration_s = 15;
  ASSERT_TRUE(cluster.write_lease("coordinator", record).value());
  record.holder = "b";
  EXPECT_FALSE(cluster.write_lease("coordinator", record).value());  // made meanwhile
  auto read = cluster.read_lease("coordinator").value();
  ASSERT_TRUE(read.has_value());
  common::LeaseRecord theirs = *read;
  ASSERT_TRUE(cluster.write_lease("coordinator", *read).value());
  theirs.holder = "c";
  EXPECT_FALSE(cluster.write_lease("coordinator", theirs).value());  // changed meanwhile
  EXPECT_EQ(cluster_->holder("coordinator"), "a");
}

TEST_F(ClusterTest, TimesSurviveTheirText) {
  Cluster cluster = found();
  common::LeaseRecord record;
  record.holder = "a";
  record.duration_s = 15;
  record.renewed_us = 1'700'000'000'000'042;
  record.acquired_us = 1'600'000'000'120'000;
  ASSERT_TRUE(cluster.write_lease("coordinator", record).value());
  common::LeaseRecord read = cluster.read_lease("coordinator").value().value();
  EXPECT_EQ(read.renewed_us, record.renewed_us);
  EXPECT_EQ(read.acquired_us, record.acquired_us);
}

TEST_F(ClusterTest, TokensAreReadAnew) {
  Cluster cluster = found();
  EXPECT_TRUE(cluster.read_lease("coordinator").ok());
  cluster_->replace_token("token-2");
  EXPECT_TRUE(cluster.read_lease("coordinator").ok());
}

TEST_F(ClusterTest, StrangersAreNotToldTheToken) {
  common::ClusterOptions options = cluster_->options();
  common::ScratchDirectory other = common::ScratchDirectory::create("lfarm-cluster").value();
  auto stranger = FakeCluster::start(other.path());
  ASSERT_NE(stranger, nullptr);
  options.server->port = stranger->port();  // another certificate than the account's
  auto cluster = Cluster::find(options);
  ASSERT_TRUE(cluster.ok());
  auto read = cluster->read_lease("coordinator");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kVerification) << read.error().message;
}

TEST_F(ClusterTest, RefusalsSayWhatWasAsked) {
  Cluster cluster = found();
  common::Status status = cluster.annotate_pod("nobody", "a", "b");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::kInvalidInput);
  EXPECT_NE(status.error().message.find("/pods/nobody with 404: pods not found"), std::string::npos)
      << status.error().message;
}

TEST_F(ClusterTest, OutsideOfAClusterThereIsNone) {
  common::ClusterOptions options;
  options.account_directory = scratch_.path() + "/nowhere";
  auto cluster = Cluster::find(options);
  ASSERT_FALSE(cluster.ok());
  EXPECT_EQ(cluster.error().code, Code::kInvalidInput) << cluster.error().message;
}

TEST_F(ClusterTest, IdleWorkersCostLessThanBusyOnes) {
  cluster_->add_pod("worker-1");
  worker::AgentState state;
  state.idle_since_ns = clock_.now_ns();
  worker::DeletionCost cost(found(), {"worker-1", 1, 10'000}, state, clock_);
  auto becomes = [&](const std::string& value) {
    auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (cluster_->annotation("worker-1", worker::kDeletionCostAnnotation) != value) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  };
  EXPECT_TRUE(becomes("0"));  // not idle for long enough
  clock_.pass_ms(10'000);
  EXPECT_TRUE(becomes("-100"));
  state.idle_since_ns = 0;
  EXPECT_TRUE(becomes("0"));
}

}  // namespace
}  // namespace cluster_testing
