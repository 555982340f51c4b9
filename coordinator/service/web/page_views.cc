#include "coordinator/service/web/page_views.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "coordinator/service/jobs/job_row.h"
#include "coordinator/service/monitoring.h"

namespace coordinator::service {

using common::cat;
using Json = nlohmann::ordered_json;

namespace {

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// The rows' texts, the newest first, without parsing what is a text already.
struct Rows {
  size_t total = 0;
  std::string text{"["};
  size_t count = 0;

  void add(const std::string& row) {
    if (count++ != 0) text += ',';
    text += row;
  }
};

Rows job_rows(const StatusSources& sources, size_t skip, size_t count) {
  Rows rows;
  auto take = [&] { return rows.total++ >= skip && rows.count < count; };
  std::vector<const Job*> open = sources.jobs.jobs();
  for (auto job = open.rbegin(); job != open.rend(); ++job) {
    if ((*job)->phase() == Phase::kEnded) continue;
    if (!sources.asker.may_see((*job)->request().tenant)) continue;
    if (take()) rows.add(text_of(job_row(sources.environment, **job)));
  }
  const auto& ended = sources.jobs.history().jobs();
  for (auto job = ended.rbegin(); job != ended.rend(); ++job) {
    if (!sources.asker.may_see((*job)->tenant)) continue;
    if (take()) rows.add((*job)->row);
  }
  rows.text += ']';
  return rows;
}

Json worker_rows(const StatusSources& sources, size_t skip, size_t count, size_t* total) {
  const Environment& env = sources.environment;
  std::vector<const WorkerSession*> sessions = env.workers.sessions();
  *total = sessions.size();
  skip = std::min(skip, sessions.size());
  sessions.erase(sessions.begin(), sessions.begin() + static_cast<std::ptrdiff_t>(skip));
  if (sessions.size() > count) sessions.resize(count);
  return worker_rows_json(sources, sessions);
}

}  // namespace

std::string overview_json(const StatusSources& sources) {
  size_t workers = 0;
  Json rows = worker_rows(sources, 0, kOverviewRows, &workers);
  Rows jobs = job_rows(sources, 0, kOverviewRows);
  size_t open = 0;
  for (const Job* job : sources.jobs.jobs()) open += job->phase() != Phase::kEnded ? 1 : 0;
  return cat(R"({"farm":)", text_of(farm_json(sources)), R"(,"demand":)", demand_json(sources, ""),
             R"(,"workers":{"total":)", workers, R"(,"rows":)", text_of(rows),
             R"(},"jobs":{"open":)", open, R"(,"total":)", jobs.total, R"(,"rows":)", jobs.text,
             "}}");
}

std::string workers_page_json(const StatusSources& sources, size_t skip, size_t count) {
  size_t total = 0;
  Json rows = worker_rows(sources, skip, count, &total);
  return cat(R"({"total":)", total, R"(,"rows":)", text_of(rows), "}");
}

std::string jobs_page_json(const StatusSources& sources, size_t skip, size_t count) {
  Rows rows = job_rows(sources, skip, count);
  return cat(R"({"total":)", rows.total, R"(,"rows":)", rows.text, "}");
}

std::string job_json(const StatusSources& sources, farm::JobId id) {
  const Job* job = sources.jobs.job(id);
  if (job != nullptr && job->phase() != Phase::kEnded) {
    if (!sources.asker.may_see(job->request().tenant)) return "";
    return cat(R"({"job":)", text_of(job_row(sources.environment, *job)), R"(,"course":)",
               text_of(job->record().course().summary()), "}");
  }
  auto ended = sources.jobs.history().find(id);
  if (ended == nullptr || !sources.asker.may_see(ended->tenant)) return "";
  return cat(R"({"job":)", ended->row, R"(,"course":)", ended->course, "}");
}

std::string candidates_json(const StatusSources& sources, farm::JobId id, size_t skip, size_t count,
                            const std::string& outcome) {
  const Job* job = sources.jobs.job(id);
  if (job != nullptr && job->phase() != Phase::kEnded) {
    if (!sources.asker.may_see(job->request().tenant)) return "";
    return cat(R"({"rows":)", text_of(job->record().course().candidates(skip, count, outcome)),
               "}");
  }
  auto ended = sources.jobs.history().find(id);
  if (ended == nullptr || !sources.asker.may_see(ended->tenant)) return "";
  Json kept = Json::parse(ended->candidates, nullptr, false);
  Json rows = Json::array();
  for (Json& row : kept) {
    if (!row.is_object() || rows.size() >= count) continue;
    if (!outcome.empty() && row.value("outcome", "") != outcome) continue;
    if (skip > 0) {
      --skip;
    } else {
      rows.push_back(std::move(row));
    }
  }
  return cat(R"({"rows":)", text_of(rows), "}");
}

}  // namespace coordinator::service
