// Whether runs share their launches: if these fail, plans of small kernels run at half their speed
// after some starts and not after others.
#include <gtest/gtest.h>

#include <functional>

#include "common/runtime/executor/run_sharing.h"

namespace common {
namespace {

constexpr int kFirstTrials = 64;  // more than the first trials take

// Makes runs that take what `time` says, and returns how many were shared.
int make_runs(RunSharing& sharing, int runs, const std::function<int64_t(bool shares)>& time) {
  int shared = 0;
  for (int run = 0; run < runs; ++run) {
    bool shares = sharing.may_share();
    shared += shares ? 1 : 0;
    sharing.tell(sharing.is_trial() ? time(shares) : 0);
  }
  return shared;
}

TEST(RunSharing, TheQuickerWayIsTaken) {
  for (bool is_sharing_quicker : {false, true}) {
    RunSharing sharing;
    EXPECT_FALSE(sharing.is_settled());
    make_runs(sharing, kFirstTrials,
              [&](bool shares) { return shares == is_sharing_quicker ? 30'000 : 60'000; });
    EXPECT_TRUE(sharing.is_settled());
    EXPECT_EQ(sharing.may_share(), is_sharing_quicker);
    EXPECT_FALSE(sharing.is_trial());
  }
}

TEST(RunSharing, WhatIsAboutEqualStaysAsItIs) {
  RunSharing sharing;
  make_runs(sharing, kFirstTrials, [](bool shares) { return shares ? 50'000 : 49'000; });
  EXPECT_TRUE(sharing.may_share());
}

// The kernel runs something else on a processor now and then.
TEST(RunSharing, SingleInterruptionsDoNotDecide) {
  RunSharing sharing;
  int trial = 0;
  make_runs(sharing, kFirstTrials, [&](bool shares) {
    bool is_interrupted = ++trial % 4 == 0;
    return is_interrupted ? 4'000'000 : shares ? 60'000 : 30'000;
  });
  EXPECT_FALSE(sharing.may_share());
}

// A run alone would take as much longer as there are threads.
TEST(RunSharing, LongRunsStayShared) {
  RunSharing sharing;
  int alone = kFirstTrials -
              make_runs(sharing, kFirstTrials, [](bool shares) { return shares ? 80'000'000 : 1; });
  EXPECT_EQ(alone, 0);
  EXPECT_TRUE(sharing.is_settled());
}

TEST(RunSharing, TrialsAreRepeatedAndChangeTheChoice) {
  RunSharing sharing;
  make_runs(sharing, kFirstTrials, [](bool shares) { return shares ? 60'000 : 30'000; });
  ASSERT_FALSE(sharing.may_share());
  int shared = make_runs(sharing, 50'000, [](bool shares) { return shares ? 60'000 : 30'000; });
  EXPECT_GT(shared, 0);
  EXPECT_LT(shared, 50) << "trials cost more than a thousandth of the runs";
  EXPECT_FALSE(sharing.may_share());
  make_runs(sharing, 50'000, [](bool shares) { return shares ? 20'000 : 30'000; });
  EXPECT_TRUE(sharing.may_share());
}

}  // namespace
}  // namespace common
