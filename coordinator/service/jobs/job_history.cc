#include "coordinator/service/jobs/job_history.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "coordinator/service/jobs/job_row.h"

namespace coordinator::service {

using common::cat;
using common::Status;
using Json = nlohmann::ordered_json;

namespace {

std::string record_name(uint64_t number) {
  return cat("coordinator/history/", number % JobHistory::kJobsMax);
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// The parts of a record, one a line; empty when it is none.
std::vector<std::string> lines_of(const std::string& record) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t end = record.find('\n'); end != std::string::npos; end = record.find('\n', start)) {
    lines.push_back(record.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace

Status JobHistory::load(TimelineSegments timelines, const std::set<farm::JobId>& open) {
  std::vector<std::pair<uint64_t, EndedJob>> found;
  for (uint64_t slot = 0; slot < kJobsMax; ++slot) {
    LFARM_ASSIGN_OR_RETURN(auto record, env_.store.get_named(record_name(slot)));
    std::vector<std::string> lines = lines_of(record.value_or(""));
    if (lines.size() != 3) continue;
    Json row = Json::parse(lines[0], nullptr, false);
    if (!row.is_object() || !row.contains("job") || !row["job"].is_number_unsigned() ||
        !row.contains("number") || !row["number"].is_number_unsigned() || !row.contains("tenant") ||
        !row["tenant"].is_string()) {
      continue;
    }
    found.emplace_back(row["number"].get<uint64_t>(), EndedJob{row["job"].get<uint64_t>(),
                                                               row["tenant"].get<std::string>(),
                                                               std::move(lines[0]),
                                                               std::move(lines[1]),
                                                               std::move(lines[2]),
                                                               {}});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [number, job] : found) {
    if (auto timeline = timelines.extract(job.id)) job.segments = std::move(timeline.mapped());
    add(std::move(job));
    kept_ = number + 1;
  }
  for (const auto& [job, segments] : timelines) {
    if (!open.contains(job)) let_go(job, segments);
  }
  return {};
}

void JobHistory::keep(const Job& job) {
  uint64_t number = kept_++;
  Json row = job_row(env_, job);
  row["ended_ns"] = common::wall_clock_ns();
  row["number"] = number;
  EndedJob ended{job.request().id,
                 job.request().tenant,
                 text_of(row),
                 text_of(job.record().course().summary()),
                 text_of(job.record().course().candidates(0, kCandidatesMax, "")),
                 job.is_admitted() ? job.record().segments() : std::vector<uint64_t>()};
  env_.commits.put(
      [name = record_name(number), record = cat(ended.row, '\n', ended.course, '\n',
                                                ended.candidates, '\n')](cache::Changes& changes) {
        changes.named.push_back({name, record});
      },
      [](const Status&) {});
  add(std::move(ended));
}

void JobHistory::add(EndedJob job) {
  jobs_.push_back(std::make_shared<const EndedJob>(std::move(job)));
  while (jobs_.size() > std::min(env_.options.kept.ended_jobs_max, kJobsMax)) {
    let_go(jobs_.front()->id, jobs_.front()->segments);
    jobs_.pop_front();
  }
}

void JobHistory::let_go(farm::JobId job, const std::vector<uint64_t>& segments) {
  if (segments.empty()) return;
  env_.commits.put(
      [job, segments](cache::Changes& changes) { remove_timeline(changes, job, segments); },
      [](const Status&) {});
}

std::shared_ptr<const EndedJob> JobHistory::find(farm::JobId id) const {
  for (const auto& job : jobs_) {
    if (job->id == id) return job;
  }
  return nullptr;
}

}  // namespace coordinator::service
