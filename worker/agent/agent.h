// The worker's conversation with the coordinator: hello, credits, leases, heartbeats, blobs,
// results, and a clean good-bye.
#pragma once

#include <map>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/wire/socket.h"
#include "worker/agent/blob_cache.h"
#include "worker/agent/coordinator_link.h"
#include "worker/agent/observe/agent_state.h"
#include "worker/agent/pipeline/pipeline.h"

namespace worker {

struct AgentOptions {
  std::string worker_id;
  std::string target;
  std::string toolchain;                      // what the coordinator is told of the compiler
  std::string machine;                        // machine class
  uint32_t slots = 4;                         // leases held at once
  size_t blob_bytes_max = size_t{256} << 20;  // graphs and objects kept
  int64_t drain_ms = 3'000;                   // for the task on the device, when told to stop
  int64_t hello_ms = 1'000;                   // between hellos that nobody answers
  int64_t heartbeat_ms = 1'000;               // unless the coordinator says otherwise
  // A task is answered this long before its deadline, so that the answer is not too late.
  int64_t answer_early_ms = 500;
  AgentState* state = nullptr;  // written while it runs, when there is one
  // Where answered tasks and their times are counted, of several agents together; null: in `state`.
  AgentState* counts = nullptr;
};

// Never touches the device. Single-threaded but for the pipeline.
class Agent {
 public:
  Agent(common::DealerSocket socket, Pipeline& pipeline, AgentOptions options,
        const common::Clock& clock);

  // Serves until `stop_fd` becomes readable or the coordinator asks to drain, and then until every
  // lease is finished or returned. kUnsupported or kInvalidInput when the coordinator refuses this
  // worker for good.
  common::Status run(int stop_fd);

 private:
  // A lease that was not answered yet.
  struct Held {
    common::Task task;
    std::set<common::Digest> missing;  // blobs that have been asked for
    int64_t received_ns = 0;
    int64_t deadline_ns = 0;
    bool submitted = false;
  };

  common::Status step(common::Poller& poller, size_t stop);
  int wait_ms() const;
  common::Status receive();
  common::Status on(const common::Packet& packet);
  void on_welcome(const common::Welcome& welcome);
  void on_task(const common::Task& task);
  void request(const common::Digest& digest);
  void on_blob(const common::Digest& digest, const common::SharedBytes& bytes);
  void on_blob_missing(const common::Digest& digest);
  common::Status on_refused(const common::Refused& refused);
  void submit_when_complete(const common::TaskLease& lease);
  void take_results();
  void expire_leases();
  // Ends a lease with an answer, and asks for another task in its place.
  void answer(common::TaskResult result);
  void give_back(const common::TaskLease& lease);
  void start_draining();
  void say_goodbye();
  void keep_in_touch();
  void show_state() const;
  // Without a connection there is nobody to take leave of: the leases expire.
  // A coordinator that has had a hello hears of the end, too: else it would count on this worker
  // until its silence is noticed.
  bool drained() const {
    return said_goodbye_ && !(link_.is_welcomed() && link_.has_unsent()) &&
           !link_.expects_welcome();
  }

  CoordinatorLink link_;
  Pipeline& pipeline_;
  AgentOptions options_;
  const common::Clock& clock_;
  BlobCache blobs_;
  std::map<common::TaskLease, Held> held_;
  bool draining_ = false;
  bool said_goodbye_ = false;
  int64_t drain_end_ns_ = 0;
};

}  // namespace worker
