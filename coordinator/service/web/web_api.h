// What the page, and scripts, ask of a coordinator over HTTP: the farm's state as JSON.
#pragma once

#include <string>

#include "common/http/http_server.h"
#include "coordinator/service/plans/plan_views.h"
#include "coordinator/service/service.h"

namespace coordinator::service {

// Thread-safe. Lives no longer than the service. docs/operations.md lists what may be asked.
class WebApi {
 public:
  explicit WebApi(Service& service) : service_(service), plans_(service.store()) {}

  // A path below /api/v1/ that is not /api/v1/demand. What is wrong with a request is a JSON object
  // with an "error": 400 for malformed ones, 404 for what is not there, 503 while the loop or a
  // process is too busy to answer.
  common::HttpResponse answer(const common::HttpRequest& request);
  // Nobody waits for processes any more.
  void stop() { plans_.stop(); }

 private:
  common::HttpResponse jobs(const common::HttpRequest& request, std::string_view rest);
  common::HttpResponse plans(const common::HttpRequest& request, std::string_view rest);
  common::HttpResponse topic(common::StatusTopic what, const std::string& after);
  common::HttpResponse cache(const std::string& after);
  common::HttpResponse asked(std::function<std::string(const StatusSources&)> question,
                             const char* missing = "");

  Service& service_;
  PlanViews plans_;
};

}  // namespace coordinator::service
