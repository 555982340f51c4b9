#include "coordinator/service/web/web_api.h"

#include <charconv>
#include <optional>
#include <utility>

#include "common/base/cat.h"
#include "coordinator/service/web/page_views.h"
#include "coordinator/service/web/web_access.h"

namespace coordinator::service {

using common::cat;
using common::Digest;
using common::HttpRequest;
using common::HttpResponse;
using common::Result;

namespace {

constexpr const char* kJson = "application/json";
constexpr uint64_t kCountMax = 200;
constexpr uint64_t kCountDefault = 50;
constexpr uint64_t kSkipMax = 1'000'000;

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool is_number = error == std::errc() && rest == text.data() + text.size();
  return is_number ? std::optional(value) : std::nullopt;
}

// Which rows of a list: ?skip=N&count=N.
struct Slice {
  size_t skip = 0;
  size_t count = kCountDefault;
};

Result<Slice> slice_of(const HttpRequest& request) {
  auto read = [&](const char* name, uint64_t otherwise, uint64_t min,
                  uint64_t max) -> Result<size_t> {
    auto found = request.query.find(name);
    if (found == request.query.end()) return static_cast<size_t>(otherwise);
    auto value = number(found->second);
    if (value && *value >= min && *value <= max) return static_cast<size_t>(*value);
    return common::invalid_input(cat(name, " is a number from ", min, " to ", max));
  };
  Slice slice;
  LFARM_ASSIGN_OR_RETURN(slice.skip, read("skip", 0, 0, kSkipMax));
  LFARM_ASSIGN_OR_RETURN(slice.count, read("count", kCountDefault, 1, kCountMax));
  return slice;
}

// What `lfarm` asks: ?after=NEXT or nothing. Empty: rows were asked for as a Slice.
std::optional<std::string> after_of(const HttpRequest& request) {
  if (request.query.empty()) return "";
  auto after = request.query.find("after");
  return after == request.query.end() ? std::nullopt : std::optional(after->second);
}

bool is_outcome(const std::string& name) {
  if (name.empty() || name == "pending") return true;
  for (int k = 0; k < common::kOutcomes; ++k) {
    if (name == common::outcome_name(static_cast<common::TaskOutcome>(k))) return true;
  }
  return false;
}

HttpResponse failed(const common::Error& error) {
  switch (error.code) {
    case common::Code::kInvalidInput:
      return error_response(400, error.message);
    case common::Code::kUnsupported:
      return error_response(422, error.message);
    case common::Code::kUnavailable:
      return error_response(503, error.message);
    default:
      return error_response(500, error.message);
  }
}

HttpResponse read(Result<std::string> text, const char* missing) {
  if (!text.ok()) return failed(text.error());
  if (text->empty()) return error_response(404, missing);
  return {200, std::move(text).value(), kJson};
}

HttpResponse nothing() { return error_response(404, "nothing is here; see /api/v1"); }

// The part before the next '/', which is taken off with it.
std::string_view take_part(std::string_view& rest) {
  size_t end = rest.find('/');
  std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

constexpr const char* kNoJob =
    "no such job is open, and it is none of the latest that ended; see /api/v1/jobs?count=50";
constexpr const char* kNoPlan = "the cache has no such plan; see /api/v1/plans";

}  // namespace

HttpResponse WebApi::asked(std::function<std::string(const StatusSources&)> question,
                           const char* missing) {
  auto text = service_.ask(std::move(question));
  if (!text) return error_response(503, "the coordinator is busy; ask again");
  return read(std::move(*text), missing);
}

HttpResponse WebApi::topic(common::StatusTopic what, const std::string& after) {
  return asked(
      [what, after](const StatusSources& sources) { return status_json(what, sources, after); });
}

HttpResponse WebApi::answer(const HttpRequest& request) {
  std::string_view rest =
      std::string_view(request.path).substr(std::string_view("/api/v1/").size());
  std::string_view first = take_part(rest);
  if (first == "jobs") return jobs(request, rest);
  if (first == "plans") return plans(request, rest);
  if (!rest.empty()) return nothing();
  if (first == "overview") return asked(overview_json);
  const std::optional<std::string> after = after_of(request);
  if (first == "cache") return cache(after.value_or(""));
  if (first == "status") return topic(common::StatusTopic::kStatus, after.value_or(""));
  if (first != "workers") return nothing();
  if (after) return topic(common::StatusTopic::kWorkers, *after);
  auto slice = slice_of(request);
  if (!slice.ok()) return failed(slice.error());
  return asked([slice = *slice](const StatusSources& sources) {
    return workers_page_json(sources, slice.skip, slice.count);
  });
}

// "", ID or ID/candidates.
HttpResponse WebApi::jobs(const HttpRequest& request, std::string_view rest) {
  auto slice = slice_of(request);
  if (!slice.ok()) return failed(slice.error());
  const auto after = after_of(request);
  if (after && rest.empty()) return topic(common::StatusTopic::kJobs, *after);
  if (rest.empty()) {
    return asked([slice = *slice](const StatusSources& sources) {
      return jobs_page_json(sources, slice.skip, slice.count);
    });
  }
  auto id = number(take_part(rest));
  if (!id) return error_response(400, "a job is a number");
  if (rest.empty()) {
    return asked([id = *id](const StatusSources& sources) { return job_json(sources, id); },
                 kNoJob);
  }
  if (rest != "candidates") return nothing();
  auto outcome = request.query.find("outcome");
  std::string wanted = outcome == request.query.end() ? "" : outcome->second;
  if (!is_outcome(wanted)) {
    return error_response(400,
                          "outcome is ok, compile_error, wrong, crash, hang, infra or pending");
  }
  return asked(
      [id = *id, slice = *slice, wanted](const StatusSources& sources) {
        return candidates_json(sources, id, slice.skip, slice.count, wanted);
      },
      kNoJob);
}

// "", ID, ID/preamble or ID/kernels/N; of an ID its first digits serve.
HttpResponse WebApi::plans(const HttpRequest& request, std::string_view rest) {
  auto slice = slice_of(request);
  if (!slice.ok()) return failed(slice.error());
  if (rest.empty()) return read(plans_.list(slice->skip, slice->count), kNoPlan);
  auto found = plans_.id_of(take_part(rest));
  if (!found.ok()) return failed(found.error());
  if (!*found) return error_response(404, kNoPlan);
  const Digest id = **found;
  if (rest.empty()) return read(plans_.plan(id), kNoPlan);
  if (rest == "preamble") return read(plans_.source(id, -1), kNoPlan);
  if (take_part(rest) != "kernels") return nothing();
  auto kernel = number(rest);
  if (!kernel || *kernel > kSkipMax) return error_response(400, "a kernel is a number");
  return read(plans_.source(id, static_cast<int64_t>(*kernel)),
              "the cache has no such plan, or the plan no such kernel");
}

// The loop does not wait for the store's counts.
HttpResponse WebApi::cache(const std::string& after) {
  auto stats = plans_.stats();
  if (!stats.ok()) return failed(stats.error());
  return asked([stats = *stats, after](const StatusSources& sources) {
    return status_json(common::StatusTopic::kCache,
                       {sources.environment, sources.jobs, sources.clients, sources.coordinator_id,
                        sources.asker, &stats},
                       after);
  });
}

}  // namespace coordinator::service
