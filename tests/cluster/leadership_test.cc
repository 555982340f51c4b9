// The order in which a coordinator opens its store, leads and renews: if these fail, one whose
// store takes minutes to open holds the lease meanwhile and serves nobody, or loses it again and
// again.
#include "coordinator/service/leadership.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "tests/cluster/fake_cluster.h"

namespace coordinator::service {
namespace {

using cluster_testing::FakeCluster;

constexpr const char* kLease = "coordinator";

class LeadershipTest : public testing::Test {
 protected:
  void SetUp() override {
    cluster_ = FakeCluster::start(scratch_.path());
    if (!cluster_) GTEST_SKIP() << "no openssl on this machine to make a certificate with";
  }
  ~LeadershipTest() override { ::close(stop_fd_); }

  // A lease far shorter than stores may take to open, and long beside what a crowded machine adds
  // to a renewal.
  static common::LeaderOptions named(const std::string& identity) {
    common::LeaderOptions options;
    options.lease = kLease;
    options.identity = identity;
    options.duration_ms = 6'000;
    options.renew_ms = 5'000;
    options.retry_ms = 20;
    return options;
  }
  std::unique_ptr<Leadership> coordinator(const std::string& identity) {
    return std::move(Leadership::begin(cluster_->options(), named(identity))).value();
  }
  // Whether it leads; not when it was told to end.
  common::Result<bool> lead(Leadership& leadership, const std::function<common::Status()>& open) {
    return leadership.lead(
        open, stop_fd_, [] { return true; }, [](const std::string&) {});
  }
  void tell_to_end() const { ASSERT_EQ(::eventfd_write(stop_fd_, 1), 0); }

  common::ScratchDirectory scratch_ = common::ScratchDirectory::create("leadership").value();
  std::unique_ptr<FakeCluster> cluster_;
  int stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
};

// While one opens its store the lease is free, and another leads.
TEST_F(LeadershipTest, WhoOpensItsStoreDoesNotHoldTheLease) {
  auto slow = coordinator("slow"), quick = coordinator("quick");
  auto open = [&]() -> common::Status {
    EXPECT_EQ(cluster_->holder(kLease), "none");
    EXPECT_TRUE(lead(*quick, [] { return common::Status(); }).value());
    tell_to_end();  // the slow one, as soon as it stands by
    return {};
  };
  EXPECT_FALSE(lead(*slow, open).value());
  EXPECT_EQ(cluster_->holder(kLease), "quick");
  EXPECT_EQ(cluster_->transitions(kLease), 0);
  EXPECT_FALSE(quick->is_lost());
}

TEST_F(LeadershipTest, WhoCannotOpenItsStoreNeverLeads) {
  auto broken = coordinator("broken");
  auto led = lead(*broken, [] { return common::Status(common::corrupt("no store")); });
  EXPECT_FALSE(led.ok());
  EXPECT_EQ(cluster_->holder(kLease), "none");
  EXPECT_EQ(cluster_->writes(), 0);
}

// What a leader does before it serves may take as long as it likes: nobody else may lead meanwhile.
// Nothing is asked of the leader here, and yet its lease is renewed; else the rival has it in 6 s.
TEST_F(LeadershipTest, ALeaderRenewsBeforeItServes) {
  auto leader = coordinator("leader");
  ASSERT_TRUE(lead(*leader, [] { return common::Status(); }).value());
  const int64_t at_first = cluster_->writes();
  common::SteadyClock clock;
  auto cluster = common::Cluster::find(cluster_->options());
  ASSERT_TRUE(cluster.ok());
  common::LeaderLease rival(std::move(cluster).value(), named("rival"), clock);
  constexpr int64_t kRenewals = 20;
  while (cluster_->writes() < at_first + kRenewals) {
    ASSERT_FALSE(rival.tend(1)) << "after " << cluster_->writes() - at_first << " renewals";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(leader->is_lost());
  EXPECT_EQ(cluster_->holder(kLease), "leader");
}

}  // namespace
}  // namespace coordinator::service
