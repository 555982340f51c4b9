#include "coordinator/service/web.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/cat.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::HttpRequest;
using common::HttpResponse;

// The loop turns four times a second when it has nothing to do. A write to a slow disk may hold it
// up; what lasts longer than this will not end.
constexpr int64_t kStuckMs = 60'000;

constexpr const char* kJson = "application/json";
constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

const std::map<std::string, common::StatusTopic>& topics() {
  static const std::map<std::string, common::StatusTopic> kTopics = {
      {"/api/v1/status", common::StatusTopic::kStatus},
      {"/api/v1/workers", common::StatusTopic::kWorkers},
      {"/api/v1/jobs", common::StatusTopic::kJobs},
      {"/api/v1/cache", common::StatusTopic::kCache}};
  return kTopics;
}

constexpr const char* kIndex =
    "lfarm coordinator\n"
    "/startupz /readyz /livez           probes\n"
    "/metrics                           for Prometheus\n"
    "/api/v1/demand[?target=PREFIX]     workers that the queue could keep busy\n"
    "/api/v1/status workers jobs cache  as `lfarm status`, `workers`, `jobs`, `cache stats`\n";

HttpResponse found(std::optional<std::string> body, const char* type) {
  if (!body) return {503, "the coordinator is busy; ask again\n"};
  return {200, *std::move(body), type};
}

}  // namespace

common::Result<std::unique_ptr<Web>> Web::start(const std::string& address) {
  std::unique_ptr<Web> web(new Web());
  LFARM_ASSIGN_OR_RETURN(web->server_, common::HttpServer::start(
                                           address, [it = web.get()](const HttpRequest& request) {
                                             return it->answer(request);
                                           }));
  return web;
}

void Web::stand_by(const std::string& leader) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  phase_ = cat("standby: ", leader.empty() ? "nobody" : leader, " leads");
}

void Web::attach(Service& service) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  service_ = &service;
}

void Web::detach() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  service_ = nullptr;
  phase_ = "stopping";
}

HttpResponse Web::probe(const std::string& path) const {
  if (service_ == nullptr) {
    bool has_started = phase_.starts_with("standby");
    bool is_fine = path == "/livez" || (path == "/startupz" && has_started);
    return {is_fine ? 200 : 503, phase_ + "\n"};
  }
  int64_t silent_ms = service_->silent_ms();
  if (path != "/startupz" && silent_ms > kStuckMs) {
    return {503, cat("the event loop has not turned for ", silent_ms / 1000, " s\n")};
  }
  return {200, "ok\n"};
}

HttpResponse Web::answer(const HttpRequest& request) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const std::string& path = request.path;
  if (path == "/startupz" || path == "/readyz" || path == "/livez") return probe(path);
  if (path == "/") return {200, kIndex};
  bool is_known = path == "/metrics" || path == "/api/v1/demand" || topics().count(path) != 0;
  if (!is_known) return {404, cat("nothing is here; see /\n")};
  if (service_ == nullptr) return {503, phase_ + "\n"};
  if (path == "/metrics") return found(service_->metrics(), kPrometheus);
  if (path == "/api/v1/demand") {
    auto target = request.query.find("target");
    return found(service_->demand(target == request.query.end() ? "" : target->second), kJson);
  }
  return found(service_->status(topics().at(path)), kJson);
}

}  // namespace coordinator::service
