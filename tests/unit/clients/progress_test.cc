// The line that tells how far a search is: people plan by the time that it says is left.
#include "clients/cli/base/progress.h"

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

TEST(ProgressLine, TheBestIsMeasuredAndWhatIsExpectedIsSaidWhileItIsLess) {
  common::Progress progress = tenth_of_a_search();
  progress.candidates_total = 0;
  progress.expected_ns = 100'000;
  EXPECT_EQ(line_of(progress, 0), "search     10 candidates, expected 100 us, 2 workers\n");
  progress.best_ns = progress.baseline_ns = 240'000;
  EXPECT_EQ(line_of(progress, 0),
            "search     10 candidates, best 240 us, plain 240 us (1.00x), expected 100 us, "
            "2 workers\n");
  progress.best_ns = progress.expected_ns = 120'000;
  EXPECT_EQ(line_of(progress, 0),
            "search     10 candidates, best 120 us, plain 240 us (2.00x), 2 workers\n");
}

TEST(ProgressLine, NarrowTerminalsKeepTheTimeThatIsLeft) {
  common::Progress progress = tenth_of_a_search();
  progress.best_ns = 120'000;
  progress.baseline_ns = 240'000;
  progress.expected_ns = 100'000;
  std::string whole = progress_line(progress, 0, 200);
  EXPECT_EQ(whole,
            "search     10/100 candidates, best 120 us, plain 240 us (2.00x), expected 100 us, "
            "2 workers, about 18.0 s left");
  EXPECT_EQ(progress_line(progress, 0, whole.size()), whole);
  EXPECT_EQ(progress_line(progress, 0, 100),
            "search     10/100 candidates, best 120 us, plain 240 us (2.00x), expected 100 us, "
            "about 18.0 s left");
  EXPECT_EQ(progress_line(progress, 0, 60), "search     10/100, best 120 us, about 18.0 s left");
  EXPECT_EQ(progress_line(progress, 0, 20), "search     10/100, about 18.0 s left");
}

TEST(ProgressLine, ADiskThatTakesNothingIsSaidOnceAnEpisode) {
  common::Progress well = tenth_of_a_search(), stuck = well;
  stuck.stage = "waiting for the farm's disk";
  stuck.trouble = "the disk of /state is full: 0.0 MiB free, 1.0 MiB needed; make room there";
  testing::internal::CaptureStderr();
  Progress shown(false);
  for (uint64_t ms : {0u, 10'000u, 20'000u}) {
    stuck.elapsed_ms = ms;
    stuck.trouble += "!";  // as when what is free changes
    shown.update(stuck, 0);
  }
  shown.update(well, 0);
  shown.update(stuck, 0);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text,
            "waiting: the disk of /state is full: 0.0 MiB free, 1.0 MiB needed; make room there!\n"
            "search     10/100 candidates, 2 workers, about 18.0 s left\n"
            "waiting: the disk of /state is full: 0.0 MiB free, 1.0 MiB needed; make room "
            "there!!!\n");
}

}  // namespace
}  // namespace clients
