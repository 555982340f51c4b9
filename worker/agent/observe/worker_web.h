// The worker over HTTP: probes and metrics.
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/http/http_server.h"
#include "worker/agent/observe/agent_state.h"

namespace worker {

// Serves until it is destroyed; borrows the state and the clock. `address`: HOST:PORT. Errors as
// HttpServer::start.
common::Result<std::unique_ptr<common::HttpServer>> serve_web(const std::string& address,
                                                              const std::string& name,
                                                              const std::string& target,
                                                              const AgentState& state,
                                                              const common::Clock& clock);

}  // namespace worker
