#include "coordinator/service/journal/job_course.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace coordinator::service {

using Json = nlohmann::ordered_json;

namespace {

// Cut where a character begins.
std::string shortened(const std::string& text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

const char* job_ending_name(JobEnding ending) {
  switch (ending) {
    case JobEnding::kOpen:
      return "open";
    case JobEnding::kDone:
      return "done";
    case JobEnding::kFailed:
      return "failed";
    case JobEnding::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

void JobCourse::proposed(const Proposal& proposal, int64_t at_ms) {
  Entry entry{proposal, proposal.kind};
  entry.proposed_ms = at_ms;
  candidates_.push_back(std::move(entry));
  if (candidates_.size() > kCandidatesMax) candidates_.pop_front();
  ++proposed_;
  if (proposal.known) judged(proposal.id, *proposal.known, at_ms);
}

void JobCourse::judged(uint64_t id, const CandidateResult& result, int64_t at_ms) {
  ++outcomes_[static_cast<size_t>(result.outcome)];
  auto found = std::lower_bound(candidates_.begin(), candidates_.end(), id,
                                [](const Entry& one, uint64_t wanted) { return one.id < wanted; });
  if (found == candidates_.end() || found->id != id) return;
  found->outcome = result.outcome;
  found->worker = result.worker;
  found->message = shortened(result.message, kMessageBytesMax);
  found->busy_ms = result.busy_ms;
  found->judged_ms = at_ms;
  if (result.outcome != common::TaskOutcome::kOk) return;
  found->measured_ns = result.report.total_ns;
  found->spread_ns = result.report.spread_ns;
  found->max_error = result.report.max_error;
}

void JobCourse::progressed(const SearchStatus& status, int64_t at_ms) {
  last_ = {status.completed, at_ms, status.best_ns, status.expected_ns};
  if (last_.best_ns == 0 && last_.expected_ns == 0) return;
  if (!points_.empty() && points_.back().best_ns == last_.best_ns &&
      points_.back().expected_ns == last_.expected_ns) {
    return;
  }
  if (points_.size() == kPointsMax) {
    // The first stays, and every second one after it.
    size_t kept = 0;
    for (size_t k = 0; k < points_.size(); k += 2) points_[kept++] = points_[k];
    points_.resize(kept);
  }
  points_.push_back(last_);
}

void JobCourse::ended(JobEnding how, const std::string& message) {
  if (ending_ != JobEnding::kOpen) return;
  ending_ = how;
  message_ = shortened(message, kMessageBytesMax);
}

Json JobCourse::summary() const {
  Json outcomes = Json::object();
  uint64_t judged = 0;
  for (int k = 0; k < common::kOutcomes; ++k) {
    uint64_t count = outcomes_[static_cast<size_t>(k)];
    outcomes[common::outcome_name(static_cast<common::TaskOutcome>(k))] = count;
    judged += count;
  }
  outcomes["pending"] = proposed_ - std::min(judged, proposed_);
  Json points = Json::array();
  auto add = [&](const Point& point) {
    points.push_back({point.candidates, point.at_ms, point.best_ns, point.expected_ns});
  };
  for (const Point& point : points_) add(point);
  // How long the best has stood.
  bool has_stood = !points_.empty() && last_.candidates > points_.back().candidates;
  if (has_stood) add(last_);
  return {{"resumed", is_resumed_},
          {"outcomes", std::move(outcomes)},
          {"points", std::move(points)},
          {"candidates_total", proposed_},
          {"candidates_kept", candidates_.size()}};
}

Json JobCourse::as_json(const Entry& one) {
  Json row{{"candidate", one.id},
           {"kind", common::task_kind_name(one.kind)},
           {"region", one.region},
           {"origin", std::string(one.origin)},
           {"fingerprint", one.fingerprint.short_hex()},
           {"predicted_ns", std::isfinite(one.predicted_ns) ? std::llround(one.predicted_ns) : 0},
           {"outcome", one.outcome ? common::outcome_name(*one.outcome) : "pending"},
           {"measured_ns", one.measured_ns},
           {"spread_ns", one.spread_ns},
           {"proposed_ms", one.proposed_ms}};
  if (!one.outcome) return row;
  row["judged_ms"] = one.judged_ms;
  row["busy_ms"] = std::round(one.busy_ms * 1e3) / 1e3;
  row["worker"] = one.worker;
  if (one.outcome == common::TaskOutcome::kOk) row["max_error"] = one.max_error;
  if (!one.message.empty()) row["message"] = one.message;
  return row;
}

bool JobCourse::has_outcome(const Entry& candidate, const std::string& outcome) {
  if (outcome.empty()) return true;
  return outcome == (candidate.outcome ? common::outcome_name(*candidate.outcome) : "pending");
}

Json JobCourse::candidates(size_t skip, size_t count, const std::string& outcome) const {
  Json rows = Json::array();
  for (auto one = candidates_.rbegin(); one != candidates_.rend() && rows.size() < count; ++one) {
    if (!has_outcome(*one, outcome)) continue;
    if (skip > 0) {
      --skip;
    } else {
      rows.push_back(as_json(*one));
    }
  }
  return rows;
}

}  // namespace coordinator::service
