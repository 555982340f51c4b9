#include "coordinator/search/final_choice.h"

#include <algorithm>
#include <cmath>

#include "common/base/cat.h"
#include "common/text/units.h"
#include "common/wire/limits.h"

namespace coordinator {
namespace {

// The quickest by their own times are compared.
constexpr size_t kRivals = 4;
static_assert(kRivals <= common::kRivalsMax);
constexpr int kAttempts = 3;
constexpr uint32_t kRounds = 60;
constexpr uint32_t kTimeMs = 2'000;  // of the first attempt; each further one has twice as much
constexpr int64_t kTimeMsMin = 100;  // of any
constexpr int64_t kTimeShare = 8;    // of a search's time, for all
// An interval narrower than this needs no further attempt, whatever it holds.
constexpr double kNarrow = 0.03;
// Rounds that are mostly disturbed say little where the interval is wide, too.
constexpr double kMostly = 0.5;
constexpr double kWide = 0.15;

}  // namespace

FinalChoice::FinalChoice(std::vector<Contender> contenders, int64_t time_ms)
    : contenders_(std::move(contenders)),
      time_left_ms_(time_ms > 0 ? time_ms / kTimeShare : INT64_MAX) {
  for (size_t k = 1; k < contenders_.size(); ++k) rivals_.push_back(k);
  std::stable_sort(rivals_.begin(), rivals_.end(), [&](size_t a, size_t b) {
    return contenders_[a].total_ns < contenders_[b].total_ns;
  });
  if (rivals_.size() > kRivals) rivals_.resize(kRivals);
  decide_by_own_times();
  is_decided_ = rivals_.empty();
}

void FinalChoice::decide_by_own_times() {
  choice_ = {};
  for (size_t k = 1; k < contenders_.size(); ++k) {
    if (contenders_[k].total_ns < contenders_[choice_.contender].total_ns) choice_.contender = k;
  }
  choice_.total_ns = contenders_[choice_.contender].total_ns;
  choice_.first_ns = contenders_[0].total_ns;
}

std::optional<FinalChoice::Task> FinalChoice::next() {
  if (is_decided_ || is_awaited_) return std::nullopt;
  is_awaited_ = true;
  Task task;
  common::Hasher hasher;
  hasher.text("comparison").u64(static_cast<uint64_t>(attempts_));
  task.payload.kind = common::TaskKind::kComparison;
  task.payload.program = contenders_[0].program;
  hasher.digest(common::program_fingerprint(task.payload.program));
  for (size_t rival : rivals_) {
    task.payload.rivals.push_back(contenders_[rival].program);
    hasher.digest(common::program_fingerprint(contenders_[rival].program));
  }
  task.payload.measure.repetitions = kRounds << attempts_;
  auto time_ms = std::clamp<int64_t>(time_left_ms_, kTimeMsMin, int64_t{kTimeMs} << attempts_);
  time_left_ms_ -= time_ms;
  task.payload.measure.time_max_ms = static_cast<uint32_t>(time_ms);
  task.payload.measure.per_kernel = false;
  task.fingerprint = hasher.finish();
  return task;
}

void FinalChoice::tell(const CandidateResult& result) {
  is_awaited_ = false;
  ++attempts_;
  // Without an answer, as from a worker of an earlier release, times of before have to do.
  bool is_answered =
      result.outcome == common::TaskOutcome::kOk && result.report.rivals.size() == rivals_.size();
  is_decided_ = !is_answered || take(result.report) || attempts_ == kAttempts || time_left_ms_ <= 0;
  if (is_decided_) add_note();
}

// Whether what the comparison says is certain enough.
bool FinalChoice::take(const common::TaskReport& report) {
  Choice best{0, report.total_ns, report.total_ns, 1, 1, 1, report.disturbed, ""};
  const common::RivalReport* quickest = nullptr;
  for (size_t k = 0; k < rivals_.size(); ++k) {
    const common::RivalReport& rival = report.rivals[k];
    if (quickest != nullptr && rival.speedup <= quickest->speedup) continue;
    quickest = &rival;
    // A program that is not quicker than the plain one is not worth its place.
    if (rival.speedup <= 1) continue;
    best = {rivals_[k],        rival.total_ns,     report.total_ns,  rival.speedup,
            rival.speedup_low, rival.speedup_high, report.disturbed, ""};
  }
  choice_ = best;
  double width = quickest->speedup_high - quickest->speedup_low;
  bool is_open = quickest->speedup_low <= 1 && quickest->speedup_high >= 1 && width > kNarrow;
  bool is_vague = report.disturbed > kMostly && width > kWide * quickest->speedup;
  if (is_open) {
    choice_.note = common::cat("the best candidate and the plain plan cannot be told apart (",
                               common::ratio_text(quickest->speedup_low), " to ",
                               common::ratio_text(quickest->speedup_high), " times as fast)");
  }
  return !is_open && !is_vague;
}

void FinalChoice::add_note() {
  if (choice_.disturbed <= kMostly || choice_.note.empty()) return;
  choice_.note += common::cat("; other work disturbed ", std::lround(choice_.disturbed * 100),
                              " % of the measurements: search again where the machine is quieter");
}

}  // namespace coordinator
