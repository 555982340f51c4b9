#include "coordinator/service/journal/job_record.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "coordinator/service/plans/plan_making.h"

namespace coordinator::service {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr size_t kScheduleTextMax = 240;  // bytes; a row keeps little more of a text

// "mr=6,nr=16": all parameters of the template, those that the schedule leaves out by default.
std::string schedule_text(const ScheduledForm& form) {
  std::string text;
  for (const common::ScheduleChoice& choice : common::schedule_parameters(form.form)) {
    int64_t value = common::schedule_value(form.schedule, form.form, choice.name);
    std::string part = common::cat(text.empty() ? "" : ",", choice.name, "=", value);
    if (text.size() + part.size() > kScheduleTextMax) break;
    text += part;
  }
  return text;
}

TimelineKernel slowest_of(const Candidate& candidate, const CandidateResult& result) {
  const std::vector<uint64_t>& ns = result.report.kernel_ns;
  bool is_known = result.outcome == common::TaskOutcome::kOk && !ns.empty() &&
                  ns.size() == candidate.forms.size();
  if (!is_known) return {};
  auto slowest = static_cast<size_t>(std::max_element(ns.begin(), ns.end()) - ns.begin());
  const ScheduledForm& form = candidate.forms[slowest];
  return {kernel_name(form.form, form.body), schedule_text(form), ns[slowest]};
}

}  // namespace

JobRecord::JobRecord(TimelineHead head, size_t rows_max, int64_t now_ns)
    : began_ns_(now_ns),
      timeline_(std::move(head), rows_max, common::wall_clock_ns(), now_ns),
      stages_([this](const std::string& stage, int64_t from_ns, int64_t to_ns) {
        timeline_.stage(stage, from_ns, to_ns);
      }) {}

void JobRecord::resumed(cache::Store& store, const std::vector<uint64_t>& segments) {
  course_.resumed();
  timeline_.go_on(store, segments);
  timeline_.mark(began_ns_, "taken up by another coordinator");
}

void JobRecord::begin_preparing(int64_t now_ns) {
  preparing_ns_ = now_ns;
  stages_.end(now_ns);
}

void JobRecord::prepared(const std::vector<StageTime>& parts, int64_t now_ns) {
  timeline_.stage("prepare", preparing_ns_, now_ns);
  int64_t from_ns = preparing_ns_;
  for (const StageTime& part : parts) {
    stages_.add(part.stage, part.ms);
    int64_t to_ns = std::min(now_ns, from_ns + static_cast<int64_t>(part.ms * kNsPerMs));
    timeline_.stage(part.stage, from_ns, to_ns, true);
    from_ns = to_ns;
  }
}

void JobRecord::proposed(const std::vector<Proposal>& candidates, const SearchStatus& status,
                         int64_t now_ns) {
  int64_t at_ms = since_begin_ms(now_ns);
  for (const Proposal& candidate : candidates) {
    if (candidate.kind == common::TaskKind::kComparison) continue;  // of candidates, and none
    course_.proposed(candidate, at_ms);
  }
  course_.progressed(status, at_ms);
}

void JobRecord::round(TimelineRound round) {
  if (round.learned == 0 && round.proposed == 0) return;
  round.from_ns = timeline_.wall(round.from_ns);
  round.to_ns = timeline_.wall(round.to_ns);
  timeline_.add(round);
}

void JobRecord::judged(const TaskDone& done, int64_t now_ns) {
  const Candidate& candidate = *done.candidate;
  if (candidate.kind != common::TaskKind::kComparison) {
    course_.judged(candidate.id, done.result, since_begin_ms(now_ns));
  }
  TimelineTask row;
  row.task = done.times.task;
  row.candidate = candidate.id;
  row.kind = candidate.kind;
  row.outcome = done.result.outcome;
  row.region = candidate.region;
  row.origin = candidate.origin;
  row.fingerprint = candidate.fingerprint;
  row.measured_ns = done.result.report.total_ns;
  row.queued_ns = timeline_.wall(done.times.queued_ns);
  row.ended_ns = timeline_.wall(done.times.ended_ns);
  row.kept_ns = timeline_.wall(now_ns);
  row.leases = done.times.leases;
  for (TimelineLease& lease : row.leases) {
    lease.sent_ns = timeline_.wall(lease.sent_ns);
    lease.ended_ns = timeline_.wall(lease.ended_ns);
  }
  row.spans = done.result.spans;
  row.slowest = slowest_of(candidate, done.result);
  timeline_.add(std::move(row));
}

void JobRecord::close(const std::string& how, int64_t now_ns) {
  stages_.end(now_ns);
  timeline_.mark(now_ns, how);
}

}  // namespace coordinator::service
