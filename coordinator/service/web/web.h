// The coordinator over HTTP: probes, metrics, what autoscalers ask, its state as JSON, and a page
// that shows it.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>

#include "common/http/http_server.h"
#include "common/http/probes.h"
#include "coordinator/service/service.h"
#include "coordinator/service/web/web_access.h"
#include "coordinator/service/web/web_api.h"

namespace coordinator::service {

struct WebOptions {
  std::string address;              // HOST:PORT
  std::string probes_address = {};  // of a second port, which answers probes only; empty: none
  std::string token_file = {};      // see WebAccess::create
  std::string certificate = {}, key = {};  // PEM files: TLS at `address`
};

// It begins before the service, which may take a while to bring back what was open, and says so.
class Web {
 public:
  // The errors of WebAccess::create and HttpServer::start.
  static common::Result<std::unique_ptr<Web>> start(const WebOptions& options);

  // Another coordinator serves: this one is well, and not ready.
  void stand_by(const std::string& leader);
  // From now on this service is asked, until detach().
  void attach(Service& service);
  void detach();
  // HOST:PORT as bound.
  const std::string& address() const { return server_->address(); }
  // Of the port for probes; empty where there is none.
  std::string probes_address() const { return probes_ == nullptr ? "" : probes_->address(); }

 private:
  explicit Web(const WebAccess& access) : access_(access) {}
  common::HttpResponse answer(const common::HttpRequest& request);
  common::HttpResponse answer_probes(const common::HttpRequest& request);
  common::Health health() const;

  const WebAccess access_;
  std::shared_mutex mutex_;
  Service* service_ = nullptr;
  std::unique_ptr<WebApi> api_;    // while there is a service
  std::string phase_{"starting"};  // while there is no service
  // These go first: they call the others.
  std::unique_ptr<common::HttpServer> probes_;
  std::unique_ptr<common::HttpServer> server_;
};

}  // namespace coordinator::service
