// A job's search while it goes on: steps in the background, candidates out to the workers, results
// back to the search once they are on the disk.
#pragma once

#include <memory>
#include <string>

#include "coordinator/service/job/interim_publisher.h"
#include "coordinator/service/job/sent_programs.h"
#include "coordinator/service/journal/search_steps.h"

namespace coordinator::service {

// Not thread-safe. Ends by JobEvents::searched() or failed().
class SearchRun {
 public:
  // `told_to_finish`: an earlier coordinator's search was.
  SearchRun(JobScope& scope, SentPrograms& programs, InterimPublisher& interim, JobEvents& job,
            std::shared_ptr<SearchSteps> steps, bool told_to_finish)
      : scope_(scope),
        programs_(programs),
        interim_(interim),
        job_(job),
        steps_(std::move(steps)),
        told_to_finish_(told_to_finish) {}
  SearchRun(const SearchRun&) = delete;
  SearchRun& operator=(const SearchRun&) = delete;

  // Takes the search a step further while there is room for candidates or something to learn.
  void drive();
  // A result is there; settled() follows once it is on the disk, or why it is not.
  void expect_result() { ++unsettled_; }
  void settled(const TaskDone& done, const common::Status& written);
  // The time that the search has, and its tenant's quota.
  void tick(int64_t now_ns);

 private:
  // A step that was taken in the background.
  struct Step {
    size_t learned = 0;
    int64_t from_ns = 0, to_ns = 0;
    common::Result<StepResult> result;
  };
  size_t wanted() const;
  void step_done(Step step);
  void note(StepResult& step);
  void keep_lessons(StepResult& step) const;
  void check_time(int64_t now_ns);
  void check_quota();
  void finish_now();
  void give_up_what_is_open();
  void end(common::Result<SearchOutcome> outcome);

  JobScope& scope_;
  SentPrograms& programs_;
  InterimPublisher& interim_;
  JobEvents& job_;
  // Reaches this from background work, for as long as it lives.
  const std::shared_ptr<SearchRun*> self_ = std::make_shared<SearchRun*>(this);
  std::shared_ptr<SearchSteps> steps_;  // shared with the step under way
  bool is_stepping_ = false;
  bool is_waiting_ = false;  // the search proposes nothing more before it has learned something
  StepRequest next_;
  size_t unsettled_ = 0;  // results on their way to the disk; the search does not know them yet
  bool told_to_finish_;
  std::string
      cut_off_;  // why it was told before it was given what was asked for; empty: it was not
};

}  // namespace coordinator::service
