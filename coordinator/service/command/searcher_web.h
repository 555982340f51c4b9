// A searcher over HTTP: probes and metrics.
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/http/http_server.h"
#include "coordinator/service/searchers/searcher.h"

namespace coordinator::service {

// At `address`, HOST:PORT. Borrows `state` and `clock`. The errors of HttpServer::start.
common::Result<std::unique_ptr<common::HttpServer>> serve_searcher_web(const std::string& address,
                                                                       const SearcherState& state,
                                                                       const common::Clock& clock);

}  // namespace coordinator::service
