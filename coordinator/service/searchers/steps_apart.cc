#include "coordinator/service/searchers/steps_apart.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "coordinator/service/plans/stored_tuning_records.h"

namespace coordinator::service {

using common::cat;
using common::Error;
using common::Result;
using common::Status;

namespace {

// A search that ends one searcher after the other is no search for this process.
constexpr int kLossesMax = 3;

Error lost(const std::string& why) { return common::unavailable(why); }

// Empty when the questions are none.
std::optional<std::string> answers_to(std::string_view body, const JobMeasurements& measurements) {
  auto questions = decode<std::vector<SearchQuestion>>(body);
  if (!questions.ok()) return std::nullopt;
  std::vector<SearchAnswer> answers;
  for (const SearchQuestion& question : *questions) {
    SearchAnswer& answer = answers.emplace_back();
    if (question.is_kernel) {
      answer.ns = measurements.kernel_ns(question.key);
    } else if (auto record = measurements.record(question.kind, question.key)) {
      answer.record = encode_tuning_record({question.key, 0, std::move(*record)});
    }
  }
  return encode(answers);
}

}  // namespace

StepsApart::StepsApart(SearcherHub& hub, std::unique_ptr<Seat> seat, SearchBeginning beginning,
                       const SearcherOptions& options)
    : hub_(hub), seat_(std::move(seat)), beginning_(std::move(beginning)), options_(options) {}

Result<std::shared_ptr<SearchSteps>> StepsApart::begin(SearcherHub& hub, std::unique_ptr<Seat> seat,
                                                       SearchBeginning beginning,
                                                       const SearcherOptions& options) {
  std::shared_ptr<StepsApart> steps(
      new StepsApart(hub, std::move(seat), std::move(beginning), options));
  Status opened = steps->open();
  while (!opened.ok()) {
    LFARM_RETURN_IF_ERROR(steps->go_on_elsewhere(opened.error()));
    opened = steps->open();
  }
  return std::shared_ptr<SearchSteps>(std::move(steps));
}

// ---- Where the search is -----------------------------------------------------------------------

Status StepsApart::open() { return seat_ ? open_at_seat() : open_inside(); }

Status StepsApart::open_inside() {
  SearchBeginning beginning = beginning_;
  for (const auto& [id, known] : course_.results) {
    LFARM_ASSIGN_OR_RETURN(auto result, parse_result_record(known.second));
    beginning.results.insert_or_assign(known.first, std::move(result.second));
  }
  LFARM_ASSIGN_OR_RETURN(inside_, begin_inside(beginning));
  opened_ = {inside_->preparation(), inside_->status()};
  return {};
}

OpenSearch StepsApart::journal() const {
  cache::Changes changes;
  const farm::JobId job = beginning_.request.id;
  journal_job(changes, beginning_.request, beginning_.graph.bytes);
  uint64_t n = 0;
  journal_start(changes, job, n, beginning_.start);
  n += kStartRecords;
  for (const auto& [key, result] : beginning_.results) {
    journal_result(changes, job, n++, key, result);
  }
  if (beginning_.finish_after) journal_finish(changes, job, n++, *beginning_.finish_after);
  OpenSearch open{job, {}};
  for (auto& record : changes.records) {
    open.records.emplace_back(record.record.sequence, std::move(record.record.bytes));
  }
  for (const auto& [id, known] : course_.results) {
    open.records.emplace_back(open.records.back().first + 1, known.second);
  }
  return open;
}

Status StepsApart::open_at_seat() {
  graphs_.clear();
  seat_->answer_by([measurements = beginning_.measurements](std::string_view questions) {
    return answers_to(questions, *measurements);
  });
  seat_->send(FrameKind::kOpen, encode(journal()));
  LFARM_ASSIGN_OR_RETURN(Seat::Received received, reply(options_.open_ms));
  if (received.frame.kind != FrameKind::kOpened) return lost("it broke the protocol");
  auto opened = decode<SearchOpened>(received.frame.body);
  if (!opened.ok()) return lost(opened.error().message);
  opened_ = std::move(*opened);
  return {};
}

// An error where the search cannot go on.
Status StepsApart::go_on_elsewhere(Error why) {
  bool is_loss = seat_ != nullptr && why.code == common::Code::kUnavailable;
  if (!is_loss || hub_.is_closed()) return why;
  const farm::JobId job = beginning_.request.id;
  const std::string searcher = seat_->searcher();
  seat_.reset();
  if (++losses_ >= kLossesMax) {
    return common::internal_error(cat("the search has lost ", losses_, " searchers, the last one (",
                                      searcher, ") because ", why.message,
                                      "; see their logs, then submit it again"));
  }
  seat_ = hub_.take_seat(options_.seat_wait_ms);
  if (hub_.is_closed()) return why;
  common::log_warning(
      cat("a search leaves searcher ", searcher, " because ", why.message,
          seat_ ? cat(", and goes on at ", seat_->searcher()) : ", and goes on in this process"),
      {{"job", job}});
  return {};
}

// ---- Steps -------------------------------------------------------------------------------------

// kFailed is an error, and so is a lookup, which is here only if it is broken.
Result<Seat::Received> StepsApart::reply(int64_t wait_ms) {
  LFARM_ASSIGN_OR_RETURN(Seat::Received received, seat_->receive(wait_ms));
  if (received.frame.kind != FrameKind::kFailed) return received;
  auto failure = decode<SearchFailure>(received.frame.body);
  if (!failure.ok()) return lost(failure.error().message);
  // Not that of a lost searcher.
  bool is_taken = failure->code == common::Code::kUnavailable;
  return Error{is_taken ? common::Code::kInternal : failure->code, failure->message};
}

Result<StepResult> StepsApart::step_at_seat(const StepRequest& request) {
  AdvanceSearch advance;
  for (const auto& [id, result] : request.results) {
    auto known = course_.results.find(id);
    if (known != course_.results.end()) advance.results.emplace_back(id, known->second.second);
  }
  advance.finish_now = request.finish_now;
  advance.candidates = static_cast<uint32_t>(std::max(request.candidates, 0));
  seat_->send(FrameKind::kAdvance, encode(advance));
  LFARM_ASSIGN_OR_RETURN(Seat::Received received, reply(options_.step_ms));
  if (received.frame.kind != FrameKind::kStepped) return lost("it broke the protocol");
  auto step = decode_step(received.frame.body, graphs_);
  if (!step.ok()) return lost(step.error().message);
  return step;
}

Result<StepResult> StepsApart::take_step(StepRequest request) {
  return inside_ ? inside_->advance(std::move(request)) : step_at_seat(request);
}

// Moves what the farm has not seen to `into`, and what it has the results of to `again`.
Status StepsApart::keep_new(StepResult& from, StepResult& into, StepRequest& again) {
  for (Proposal& proposal : from.proposals) {
    if (proposal.id >= course_.next_id) into.proposals.push_back(std::move(proposal));
  }
  for (auto& candidate : from.candidates) {
    const uint64_t id = candidate->id;
    if (id >= course_.next_id) {
      course_.under_way.emplace(id, candidate->key());
      into.candidates.push_back(std::move(candidate));
      continue;
    }
    auto known = course_.results.find(id);
    auto open = course_.under_way.find(id);
    bool is_same = known != course_.results.end()
                       ? known->second.first == candidate->key()
                       : open != course_.under_way.end() && open->second == candidate->key();
    if (!is_same) {
      return common::internal_error(
          cat("the search, begun anew, proposes another candidate ", id, " than before"));
    }
    if (known == course_.results.end()) continue;
    LFARM_ASSIGN_OR_RETURN(auto result, parse_result_record(known->second.second));
    again.results.emplace_back(id, std::move(result.second));
  }
  for (const Proposal& proposal : into.proposals) {
    course_.next_id = std::max(course_.next_id, proposal.id + 1);
  }
  for (SearchOutcome& plan : from.interim) {
    if (course_.interim.insert(plan.candidate).second) into.interim.push_back(std::move(plan));
  }
  if (from.finished_after) {
    into.finished_after = beginning_.finish_after = from.finished_after;
  }
  return {};
}

// A step of the search as the farm sees it, added to `all`: what was handed out before is not
// handed out again. `wanted`: candidates that `all` is to have.
Status StepsApart::step_and_filter(StepRequest request, size_t wanted, StepResult& all) {
  while (true) {
    LFARM_ASSIGN_OR_RETURN(StepResult step, take_step(std::move(request)));
    size_t came = step.candidates.size();
    size_t had = all.candidates.size();
    request = {};
    LFARM_RETURN_IF_ERROR(keep_new(step, all, request));
    all.status = step.status;
    for (auto& one : step.answers) all.answers.push_back(one);
    for (auto& one : step.fresh_tuning_records) all.fresh_tuning_records.push_back(std::move(one));
    if (step.outcome) all.outcome = std::move(step.outcome);
    all.learned = std::move(step.learned);
    all.tuning_records = std::move(step.tuning_records);
    bool was_seen = all.candidates.size() - had < came;
    bool has_room = all.candidates.size() < wanted;
    request.candidates = has_room ? static_cast<int>(wanted - all.candidates.size()) : 0;
    bool goes_on = !all.outcome && (!request.results.empty() || (was_seen && has_room));
    if (!goes_on) return {};
  }
}

Result<StepResult> StepsApart::advance(StepRequest request) {
  for (const auto& [id, result] : request.results) {
    auto sent = course_.under_way.extract(id);
    if (sent.empty()) continue;
    course_.results.emplace(id, std::pair{sent.mapped(), result_record(sent.mapped(), result)});
  }
  const int asked = std::max(request.candidates, 0);
  const bool finishes = request.finish_now;
  StepResult all;
  Status step = step_and_filter(std::move(request), static_cast<size_t>(asked), all);
  while (!step.ok()) {
    LFARM_RETURN_IF_ERROR(go_on_elsewhere(step.error()));
    const SearchStatus before = opened_.status;
    // It is told to end where it would have been told.
    if (finishes && !beginning_.finish_after) {
      all.finished_after = beginning_.finish_after = before.candidates;
    }
    step = open();
    opened_.status = before;
    if (!step.ok()) continue;
    StepRequest again;
    again.candidates = asked - static_cast<int>(all.candidates.size()) +
                       static_cast<int>(course_.under_way.size());
    step = step_and_filter(std::move(again), static_cast<size_t>(asked), all);
  }
  all.asked = asked;
  opened_.status = all.status;
  for (auto& one : beginning_.measurements->take_fresh()) all.answers.push_back(one);
  for (auto& one : beginning_.measurements->take_fresh_tuning_records()) {
    all.fresh_tuning_records.push_back(std::move(one));
  }
  return all;
}

}  // namespace coordinator::service
