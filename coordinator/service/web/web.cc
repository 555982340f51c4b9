#include "coordinator/service/web/web.h"

#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/cat.h"
#include "coordinator/page/page.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::HttpRequest;
using common::HttpResponse;

constexpr const char* kJson = "application/json";
constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kApi = "/api/v1/";

constexpr const char* kStandby =
    "# HELP lfarm_leader 1 for the coordinator that serves, 0 for one that waits\n"
    "# TYPE lfarm_leader gauge\nlfarm_leader 0\n";
constexpr size_t kProbeThreads = 4;

constexpr const char* kIndex =
    "lfarm coordinator\n"
    "/                                    the page\n"
    "/startupz /readyz /livez             probes\n"
    "/metrics                             for Prometheus\n"
    "/api/v1/demand[?target=PREFIX]       workers that the queue could keep busy\n"
    "What follows is for this machine, or for who has the token:\n"
    "/api/v1/status workers jobs cache    as `lfarm status`, `workers`, `jobs`, `cache stats`\n"
    "/api/v1/overview                     all of it in short\n"
    "/api/v1/workers?skip=N&count=N       some of them\n"
    "/api/v1/jobs?skip=N&count=N          the latest, those that ended too\n"
    "/api/v1/jobs/ID                      one with its search's course\n"
    "/api/v1/jobs/ID/candidates[?outcome=ok&skip=N&count=N]\n"
    "/api/v1/plans?skip=N&count=N         the cache's plans, the newest first\n"
    "/api/v1/plans/ID                     one with its kernels\n"
    "/api/v1/plans/ID/kernels/N           a kernel's source; /preamble: what comes before all\n";

HttpResponse found(std::optional<std::string> body, const char* type) {
  if (!body) return {503, "the coordinator is busy; ask again\n"};
  return {200, *std::move(body), type};
}

}  // namespace

common::Result<std::unique_ptr<Web>> Web::start(const WebOptions& options) {
  LFARM_ASSIGN_OR_RETURN(WebAccess access, WebAccess::create(options.token_file));
  std::unique_ptr<Web> web(new Web(access));
  common::HttpServerOptions server_options;
  server_options.certificate = options.certificate;
  server_options.key = options.key;
  auto answers = [it = web.get()](const HttpRequest& request) { return it->answer(request); };
  LFARM_ASSIGN_OR_RETURN(web->server_,
                         common::HttpServer::start(options.address, answers, server_options));
  if (options.probes_address.empty()) return web;
  auto probes = [it = web.get()](const HttpRequest& request) { return it->answer_probes(request); };
  common::HttpServerOptions probes_options;
  probes_options.threads = kProbeThreads;
  LFARM_ASSIGN_OR_RETURN(web->probes_,
                         common::HttpServer::start(options.probes_address, probes, probes_options));
  return web;
}

HttpResponse Web::answer_probes(const HttpRequest& request) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto probed = common::answer_probe(request.path, health());
  return probed ? *std::move(probed) : HttpResponse{404, "here are only probes\n"};
}

void Web::stand_by(const std::string& leader) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  phase_ = cat("standby: ", leader.empty() ? "nobody" : leader, " leads");
}

void Web::attach(Service& service) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  service_ = &service;
  api_ = std::make_unique<WebApi>(service);
}

void Web::detach() {
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    if (api_ != nullptr) api_->stop();
  }
  std::lock_guard<std::shared_mutex> lock(mutex_);
  api_.reset();
  service_ = nullptr;
  phase_ = "stopping";
}

common::Health Web::health() const {
  if (service_ != nullptr) return {"", "", service_->silent_ms()};
  return {phase_.starts_with("standby") ? "" : phase_, phase_, 0};
}

HttpResponse Web::answer(const HttpRequest& request) {
  const std::string& path = request.path;
  for (const PageFile& file : page_files()) {
    if (path == file.path) return {200, std::string(file.text), std::string(file.type)};
  }
  if (path == "/api/v1") return {200, kIndex};
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (auto probed = common::answer_probe(path, health())) return *std::move(probed);
  if (path == "/metrics") {
    // Of several coordinators each is scraped; what is counted the one that serves has.
    if (service_ == nullptr && phase_.starts_with("standby")) return {200, kStandby, kPrometheus};
    if (service_ == nullptr) return {503, phase_ + "\n"};
    return found(service_->metrics(), kPrometheus);
  }
  if (!path.starts_with(kApi)) return {404, "nothing is here; see /api/v1\n"};
  bool is_demand = path == "/api/v1/demand";
  if (!is_demand) {
    if (auto refusal = access_.refusal(request)) return *refusal;
  }
  if (service_ == nullptr) return error_response(503, phase_);
  if (!is_demand) return api_->answer(request);
  auto target = request.query.find("target");
  return found(service_->demand(target == request.query.end() ? "" : target->second), kJson);
}

}  // namespace coordinator::service
