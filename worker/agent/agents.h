// Serves the coordinators of a farm, each by an agent of its own.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"
#include "worker/agent/agent.h"
#include "worker/agent/pipeline/pipeline.h"

namespace worker {

// A socket to each coordinator that `endpoints` lists, separated by commas.
common::Result<std::vector<common::DealerSocket>> connect_to_coordinators(
    common::WireContext& context, std::string_view endpoints,
    const std::optional<common::ClientKeys>& keys);

// As Agent::run() with one socket. With several, the agents run in threads and share the pipeline's
// slots (pipeline_shares.h): a coordinator that is away keeps no other waiting. Each of them counts
// on all slots, as if it were alone; tasks that find none wait for their turn. One that refuses
// this worker is left alone. Returns when no agent is left, with an error when all were refused.
common::Status serve_coordinators(std::vector<common::DealerSocket> sockets, Pipeline& pipeline,
                                  const AgentOptions& options, const common::Clock& clock,
                                  int stop_fd);

// What the agents' states say of the worker as a whole.
void merge_states(const std::vector<const AgentState*>& agents, AgentState& worker);

}  // namespace worker
