#include "worker/agent/agents.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "worker/agent/pipeline/pipeline_shares.h"

namespace worker {

using common::Status;

namespace {

constexpr std::chrono::milliseconds kMergePause{100};

struct Running {
  AgentState state;
  std::unique_ptr<Agent> agent;
  std::thread thread;
  std::atomic<bool> has_ended{false};
  Status status;  // once it has ended
};

}  // namespace

common::Result<std::vector<common::DealerSocket>> connect_to_coordinators(
    common::WireContext& context, std::string_view endpoints,
    const std::optional<common::ClientKeys>& keys) {
  std::vector<common::DealerSocket> sockets;
  for (const std::string& endpoint : common::split_endpoints(endpoints)) {
    LFARM_ASSIGN_OR_RETURN(auto socket,
                           common::DealerSocket::connect(context, {endpoint, keys, nullptr}));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

void merge_states(const std::vector<const AgentState*>& agents, AgentState& worker) {
  int64_t turned_ns = INT64_MAX, idle_since_ns = 0;
  bool is_joined = false, has_joined = false, is_draining = true, is_idle = true;
  uint32_t leases = 0;
  for (const AgentState* agent : agents) {
    turned_ns = std::min<int64_t>(turned_ns, agent->turned_ns);
    is_joined = is_joined || agent->is_joined;
    has_joined = has_joined || agent->has_joined;
    is_draining = is_draining && agent->is_draining;
    leases += agent->leases;
    is_idle = is_idle && agent->idle_since_ns != 0;
    idle_since_ns = std::max<int64_t>(idle_since_ns, agent->idle_since_ns);
  }
  worker.turned_ns = agents.empty() ? 0 : turned_ns;
  worker.is_joined = is_joined;
  worker.has_joined = has_joined;
  worker.is_draining = is_draining;
  worker.leases = leases;
  worker.idle_since_ns = is_idle ? idle_since_ns : 0;
}

Status serve_coordinators(std::vector<common::DealerSocket> sockets, Pipeline& pipeline,
                          const AgentOptions& options, const common::Clock& clock, int stop_fd) {
  if (sockets.size() == 1) {
    return Agent(std::move(sockets.front()), pipeline, options, clock).run(stop_fd);
  }
  PipelineShares shares(pipeline, sockets.size(), options.slots);
  std::vector<std::unique_ptr<Running>> all;
  for (size_t k = 0; k < sockets.size(); ++k) {
    all.push_back(std::make_unique<Running>());
    Running& one = *all.back();
    AgentOptions its_options = options;
    its_options.state = &one.state;
    its_options.counts = options.state;
    one.agent = std::make_unique<Agent>(std::move(sockets[k]), shares.share(k), its_options, clock);
    one.thread = std::thread([&one, stop_fd] {
      one.status = one.agent->run(stop_fd);
      if (!one.status.ok()) {
        common::log_warning("a coordinator is served no more: " + one.status.error().message);
      }
      one.has_ended = true;
    });
  }
  while (true) {
    std::vector<const AgentState*> states;
    for (const auto& one : all) {
      if (!one->has_ended) states.push_back(&one->state);
    }
    if (options.state != nullptr) merge_states(states, *options.state);
    if (states.empty()) break;
    std::this_thread::sleep_for(kMergePause);
  }
  Status status = all.front()->status;
  for (const auto& one : all) {
    one->thread.join();
    if (one->status.ok()) status = {};
  }
  return status;
}

}  // namespace worker
