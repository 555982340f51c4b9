// What autoscalers are told: if these fail, a farm stands still with work waiting, or machines run
// with none.
#include "coordinator/farm/demand.h"

#include <gtest/gtest.h>

namespace coordinator::farm {
namespace {

TEST(Demand, NothingIsWantedWithoutWork) {
  EXPECT_TRUE(demands({}, {}).empty());
  auto idle = demands({}, {{"cpu-a", 3, 12}});
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].workers, 3);
  EXPECT_EQ(idle[0].queue_depth, 0);
  EXPECT_EQ(idle[0].wanted_workers, 0);
}

TEST(Demand, TheFirstTaskWantsAWorkerWhereThereIsNone) {
  auto first = demands({{"cpu-a", 1}}, {});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].target, "cpu-a");
  EXPECT_EQ(first[0].wanted_workers, 1);
  EXPECT_EQ(first[0].workers, 0);
}

TEST(Demand, AsManyAreWantedAsTheTasksKeepBusy) {
  // Workers of this target take eight tasks each.
  auto busy = demands({{"cpu-a", 8}, {"cpu-a", 9}}, {{"cpu-a", 1, 8}, {"cpu-a", 1, 8}});
  ASSERT_EQ(busy.size(), 1u);
  EXPECT_EQ(busy[0].queue_depth, 17);
  EXPECT_EQ(busy[0].workers, 2);
  EXPECT_EQ(busy[0].wanted_workers, 3);
}

TEST(Demand, UnknownSlotsAreTheUsualOnes) {
  EXPECT_EQ(demands({{"cpu-a", 2 * kUsualSlots}}, {})[0].wanted_workers, 2);
  // A worker that offers nothing says nothing about the others.
  EXPECT_EQ(demands({{"cpu-a", 2 * kUsualSlots}}, {{"cpu-a", 1, 0}})[0].wanted_workers, 2);
}

TEST(Demand, TargetsAreKeptApartAndAddedByPrefix) {
  auto all = demands({{"cuda-sm_90a", 4}, {"cuda-sm_80", 9}, {"cpu-a", 4}},
                     {{"cpu-a", 1, 4}, {"cuda-sm_80", 1, 4}});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].target, "cpu-a");
  Demand cuda = sum_of(all, "cuda");
  EXPECT_EQ(cuda.wanted_workers, 1 + 3);
  EXPECT_EQ(cuda.queue_depth, 13);
  EXPECT_EQ(cuda.workers, 1);
  EXPECT_EQ(sum_of(all, "cuda-sm_80").wanted_workers, 3);
  EXPECT_EQ(sum_of(all, "tpu").wanted_workers, 0);
  EXPECT_EQ(sum_of(all, "").queue_depth, 17);
}

}  // namespace
}  // namespace coordinator::farm
