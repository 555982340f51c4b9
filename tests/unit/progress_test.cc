// The line that tells how far a search is: people plan by the time that it says is left.
#include "clients/cli/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace clients {
namespace {

std::string line_of(const common::Progress& progress, uint64_t budget_ms) {
  testing::internal::CaptureStderr();
  Progress(false).update(progress, budget_ms);
  return testing::internal::GetCapturedStderr();
}

common::Progress tenth_of_a_search() {
  common::Progress progress;
  progress.stage = "search";
  progress.candidates_done = 10;
  progress.candidates_total = 100;
  progress.elapsed_ms = 2'000;
  progress.workers = 2;
  return progress;
}

TEST(ProgressLine, WhatIsLeftIsTheLesserOfCandidatesAndTime) {
  common::Progress progress = tenth_of_a_search();
  EXPECT_EQ(line_of(progress, 0), "search     10/100 candidates, 2 workers, about 18.0 s left\n");
  EXPECT_EQ(line_of(progress, 60'000), line_of(progress, 0));
  EXPECT_EQ(line_of(progress, 5'000),
            "search     10/100 candidates, 2 workers, about 3.00 s left\n");
}

TEST(ProgressLine, TimeAloneTellsWhatIsLeft) {
  common::Progress progress = tenth_of_a_search();
  progress.candidates_total = 0;
  EXPECT_EQ(line_of(progress, 5'000), "search     10 candidates, 2 workers, about 3.00 s left\n");
  EXPECT_EQ(line_of(progress, 0), "search     10 candidates, 2 workers\n");
}

TEST(ProgressLine, NothingIsLeftOnceTheTimeIsUp) {
  EXPECT_EQ(line_of(tenth_of_a_search(), 1'500), "search     10/100 candidates, 2 workers\n");
}

}  // namespace
}  // namespace clients
