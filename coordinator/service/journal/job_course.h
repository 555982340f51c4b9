// The course of one job as people want to see it: what was tried, what became of it, and how the
// best time fell.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/outcome.h"
#include "common/wire/task.h"
#include "coordinator/farm/types.h"
#include "coordinator/search/job_search.h"

namespace coordinator::service {

// A candidate as it was proposed, and its result where one was known already.
struct Proposal : CandidateFacts {
  common::TaskKind kind{};
  std::optional<CandidateResult> known;
};

// One that lies in the past of the coordinator, for good or bad.
enum class JobEnding : uint8_t { kOpen, kDone, kFailed, kCancelled };
// "open", "done", "failed", "cancelled".
const char* job_ending_name(JobEnding ending);

// Bounded whatever the job's budget: of its candidates the latest are kept, of the rest the counts;
// of the curve every second point goes when there are too many. Not thread-safe.
class JobCourse {
 public:
  static constexpr size_t kCandidatesMax = 4'096;
  static constexpr size_t kPointsMax = 512;
  static constexpr size_t kMessageBytesMax = 240;

  void proposed(const Proposal& proposal, int64_t at_ms);
  void judged(uint64_t candidate, const CandidateResult& result, int64_t at_ms);
  // After the search has learned something: a point of the curve where the best time, or the
  // expected one, has changed.
  void progressed(const SearchStatus& status, int64_t at_ms);
  // Some of it lies before a restart of the coordinator, whose times are not known.
  void resumed() { is_resumed_ = true; }
  void ended(JobEnding how, const std::string& message);
  void has_plan(const std::string& id) { plan_ = id; }

  JobEnding ending() const { return ending_; }
  const std::string& message() const { return message_; }  // why it failed, or a note
  const std::string& plan() const { return plan_; }        // its id; empty while there is none

  // {"resumed", "outcomes", "points", "candidates_total", "candidates_kept"}; a point is
  // [candidates, ms, best ns, expected ns], as in SearchStatus; 0 while unknown.
  nlohmann::ordered_json summary() const;
  // At most `count` of the kept candidates, newest first, after `skip` of them; of one outcome
  // ("pending" for those under way) unless `outcome` is "".
  nlohmann::ordered_json candidates(size_t skip, size_t count, const std::string& outcome) const;

 private:
  struct Entry : CandidateFacts {
    common::TaskKind kind{};
    std::optional<common::TaskOutcome> outcome;
    uint64_t measured_ns = 0, spread_ns = 0;
    double busy_ms = 0;
    double max_error = 0;
    int64_t proposed_ms = 0, judged_ms = 0;  // since the job began
    std::string worker, message;
  };
  struct Point {
    int64_t candidates = 0;
    int64_t at_ms = 0;
    int64_t best_ns = 0;
    int64_t expected_ns = 0;
  };
  static nlohmann::ordered_json as_json(const Entry& candidate);
  static bool has_outcome(const Entry& candidate, const std::string& outcome);

  std::deque<Entry> candidates_;  // in the order of proposal
  uint64_t proposed_ = 0;
  std::array<uint64_t, common::kOutcomes> outcomes_{};
  std::vector<Point> points_;
  Point last_;
  bool is_resumed_ = false;
  JobEnding ending_ = JobEnding::kOpen;
  std::string message_, plan_;
};

}  // namespace coordinator::service
