#include <gtest/gtest.h>

#include "coordinator/search/interim.h"

namespace coordinator {
namespace {

CandidateResult result_of(double busy_ms, double compile_ms) {
  CandidateResult result;
  result.busy_ms = busy_ms;
  result.report.compile_ms = compile_ms;
  return result;
}

// The first whole program compiles nearly all kernels that later ones are made of, so that its time
// says how long those take only without that.
TEST(InterimPlans, LaterProgramsAreExpectedToBeCompiledAlready) {
  InterimPlans interim;
  EXPECT_EQ(interim.whole_ms(), 0);
  interim.learned(InterimPlans::Of::kPlain, result_of(10'000, 8'000));
  EXPECT_EQ(interim.whole_ms(), 2'000);
  interim.learned(InterimPlans::Of::kRegion, result_of(500, 400));
  EXPECT_EQ(interim.whole_ms(), 2'000);
  interim.learned(InterimPlans::Of::kWhole, result_of(1'500, 0));
  EXPECT_EQ(interim.whole_ms(), 1'500);
}

// One whole program in between costs 900 ms of 20 s, so that a faster one may be measured, but not
// where its verification alone takes most of the search.
TEST(InterimPlans, WholeProgramsTakeASmallShareOfTheTime) {
  for (bool is_slow : {false, true}) {
    InterimPlans interim;
    interim.learned(InterimPlans::Of::kPlain, result_of(10'000, is_slow ? 0 : 9'100));
    interim.learned(InterimPlans::Of::kRegion, result_of(10'000, 4'000));
    EXPECT_EQ(interim.is_due(10e6, 5e6, 12), !is_slow);
  }
}

// Of regions' best parts one was measured well and is slow in the whole program. What they promise
// later need not be a tenth below what they promised then.
TEST(InterimPlans, AProgramThatTookLongerThanExpectedIsSoonFollowed) {
  InterimPlans interim;
  interim.learned(InterimPlans::Of::kPlain, result_of(10'000, 9'900));
  interim.learned(InterimPlans::Of::kRegion, result_of(100'000, 40'000));
  ASSERT_TRUE(interim.is_due(10e6, 5e6, 12));
  interim.sent(5e6, 12, 8);
  EXPECT_FALSE(interim.is_due(10e6, 4.8e6, 20)) << "what was sent is not known yet";
  CandidateResult whole = result_of(100, 0);
  whole.report.total_ns = 8'000'000;
  interim.learned(InterimPlans::Of::kWhole, whole);
  EXPECT_FALSE(interim.is_due(10e6, 4.8e6, 19)) << "too soon";
  EXPECT_TRUE(interim.is_due(10e6, 4.8e6, 20));
  EXPECT_FALSE(interim.is_due(10e6, 7.5e6, 20));
}

}  // namespace
}  // namespace coordinator
