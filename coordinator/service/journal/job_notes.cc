#include "coordinator/service/journal/job_notes.h"

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

namespace {

void add_measurements(cache::Changes& changes, const std::string& device,
                      const std::vector<common::Digest>& kernels, const CandidateResult& result,
                      int64_t now) {
  if (result.outcome != common::TaskOutcome::kOk) return;
  const common::TaskReport& report = result.report;
  if (report.kernel_ns.size() != kernels.size()) return;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (report.kernel_ns[k] == 0) continue;
    cache::StoredMeasurement measurement{static_cast<double>(report.kernel_ns[k]), report.runs,
                                         now};
    changes.measurements.push_back({kernels[k], device, measurement});
  }
}

}  // namespace

void JobNotes::put(Commits::Write write) const {
  commits_.put(std::move(write), [job = job_](const common::Status& written) {
    if (written.ok()) return;
    common::log_warning(common::cat("a job's journal is incomplete: ", written.error().message),
                        {{"job", job}});
  });
}

void JobNotes::start(const JobStart& start) {
  uint64_t n = std::exchange(next_, next_ + kStartRecords);
  put([job = job_, n, start](cache::Changes& changes) { journal_start(changes, job, n, start); });
}

void JobNotes::answers(std::vector<std::pair<common::Digest, int64_t>> answers) {
  if (answers.empty()) return;
  put([job = job_, n = next_++, answers = std::move(answers)](cache::Changes& changes) {
    journal_answers(changes, job, n, answers);
  });
}

void JobNotes::tuning_records(std::vector<std::pair<common::Digest, TuningRecord>> records) {
  if (records.empty()) return;
  put([job = job_, n = next_++, records = std::move(records)](cache::Changes& changes) {
    journal_tuning_records(changes, job, n, records);
  });
}

void JobNotes::told_to_finish(int64_t candidates) {
  put([job = job_, n = next_++, candidates](cache::Changes& changes) {
    journal_finish(changes, job, n, candidates);
  });
}

void JobNotes::result(const std::shared_ptr<const TaskDone>& done, std::string device,
                      int64_t wall_ns, Commits::Write rows, Commits::Done kept) {
  commits_.put(
      [job = job_, n = next_++, device = std::move(device), done, wall_ns,
       rows = std::move(rows)](cache::Changes& changes) {
        const Candidate& candidate = *done->candidate;
        journal_result(changes, job, n, candidate.key(), done->result);
        add_measurements(changes, device, candidate.kernels, done->result, wall_ns);
        rows(changes);
      },
      std::move(kept));
}

void JobNotes::removal() {
  put([job = job_](cache::Changes& changes) { journal_removal(changes, job); });
}

}  // namespace coordinator::service
