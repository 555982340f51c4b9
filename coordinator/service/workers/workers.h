// The workers' side of the protocol: who is connected, what they offered, what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "coordinator/service/loop/outbox.h"
#include "coordinator/service/workers/dispatcher.h"

namespace coordinator::service {

// What machine code follows from beside the program: workers of one make that compile it
// reproducibly make the same objects.
struct WorkerMake {
  std::string target;
  std::string machine;  // class: compilers tune code for the processor that they run on
  std::string build;    // of the worker, for its code generator
  std::string toolchain;
  friend bool operator==(const WorkerMake&, const WorkerMake&) = default;
};

// What compiles at a worker.
struct WorkerSoftware {
  std::string build;  // lfarm's version
  std::string toolchain;
  bool is_reproducible = false;  // see common::WorkerHello
};

struct WorkerSession {
  std::string name;  // the worker's id on the wire
  farm::WorkerId id = 0;
  uint64_t incarnation = 1;
  std::string peer;
  std::string target;
  std::string machine;  // class; empty: the worker does not say
  std::string address;
  WorkerSoftware software;
  uint32_t slots_offered = 0;
  // Leases it is willing to hold now: those it holds and its credits. Credits and results move it,
  // so that a worker that withholds credit gets no work.
  uint32_t slots = 0;
  struct Lease {
    int64_t sent_ns = 0;
    uint32_t unnamed = 0;  // heartbeats in a row that did not name it
  };
  std::map<common::TaskLease, Lease> leases;
  // Of another coordinator, and revoked: the worker did not count their slots in its credit.
  std::set<common::TaskLease> foreign;
  uint64_t tasks_done = 0;
  int64_t since_ns = 0;

  // Empty when the worker does not compile reproducibly.
  std::optional<WorkerMake> make() const {
    if (!software.is_reproducible) return std::nullopt;
    return WorkerMake{target, machine, software.build, software.toolchain};
  }
};

// Not thread-safe.
class Workers final : public WorkerLink {
 public:
  Workers(Dispatcher& dispatcher, Outbox& outbox, const common::Clock& clock, int64_t heartbeat_ms)
      : dispatcher_(dispatcher), outbox_(outbox), clock_(clock), heartbeat_ms_(heartbeat_ms) {}

  // False when the hello was refused; the refusal has been sent.
  bool hello(const std::string& peer, const std::string& address, const common::WorkerHello& hello);
  bool is_worker(const std::string& peer) const { return by_peer_.count(peer) != 0; }
  // Whether another connection has taken over the name under which this one said hello.
  bool is_displaced(const std::string& peer) const { return displaced_.count(peer) != 0; }
  void on(const std::string& peer, const common::Credit& message);
  void on(const std::string& peer, const common::Heartbeat& message);
  void on(const std::string& peer, common::TaskResult message);
  void on(const std::string& peer, const common::LeaseReturned& message);
  void on(const std::string& peer, const common::WorkerBye& message);
  // The peer, if it is a worker, is not one any more; what it held goes to others.
  void drop(const std::string& peer);
  // The same of the worker of that name, which is told why.
  void expel(const std::string& name, const std::string& why);

  // Leases that workers of the target and machine class are willing to hold together, held ones
  // included.
  size_t slots(const std::string& target, const std::string& machine) const;
  bool has_target(const std::string& target) const;
  bool has(const std::string& target, const std::string& machine) const;
  // The class that a search for `wanted` runs on: itself while it has a worker, or while the target
  // has none at all; else the class that offers the most slots. An empty `wanted` is no wish.
  std::string class_for(const std::string& target, const std::string& wanted) const;
  // Grows whenever a worker comes, goes or says that it has another toolchain.
  uint64_t changes() const { return changes_; }
  // The target that is meant by `wanted`: itself, or that of the workers of its family; without a
  // wish a CPU's if there is one, else any. Empty while there is no such worker. kInvalidInput when
  // workers of the family have several.
  common::Result<std::string> resolve_target(const std::string& wanted) const;
  // All workers' targets, for people: "cpu-x86_64-avx512, cuda-sm_90a", or "none".
  std::string targets_text() const;
  size_t count() const { return by_id_.size(); }
  // In the order of names.
  std::vector<const WorkerSession*> sessions() const;
  // Sends to the worker of that name; false when it is not connected.
  bool send(const std::string& name, const common::Message& message);
  // The worker's name; empty when the peer is no worker.
  std::string name_of_peer(const std::string& peer) const;

  void send_task(farm::WorkerId worker, const common::Task& task) override;
  void revoke(farm::WorkerId worker, const common::TaskLease& lease) override;
  void ask_for_hello(farm::WorkerId worker) override;
  void lost(farm::WorkerId worker, bool restarted) override;
  void refused(farm::WorkerId worker, farm::Refusal refusal) override;
  std::string name(farm::WorkerId worker) const override;
  uint32_t slots_of(farm::WorkerId worker) const override;
  bool has_twin(farm::WorkerId worker) const override;
  // Empty when it is not connected.
  std::optional<WorkerMake> make_of(const std::string& name) const;
  // The least loaded worker of this make whose name is not among `others`; null when there is none.
  const WorkerSession* twin(const WorkerMake& make, const std::set<std::string>& others) const;
  // Of all workers of the target and machine class.
  std::set<std::string> toolchains(const std::string& target, const std::string& machine) const;

 private:
  struct Known {
    farm::WorkerId id = 0;
    uint64_t incarnation = 0;
  };
  std::set<std::string> targets() const;
  WorkerSession* at_peer(const std::string& peer);
  Known& known(const std::string& name);
  void move_to(WorkerSession& session, const std::string& peer);
  void announce(const WorkerSession& session);
  void find_lost_leases(WorkerSession& session, const std::set<common::TaskLease>& named);
  void give_up_slot(WorkerSession& session, const common::TaskLease& lease);
  CandidateResult judge(const WorkerSession& session, common::TaskResult& message) const;
  void remove(farm::WorkerId id);

  static constexpr size_t kKnownMax = 65'536;
  static constexpr size_t kDisplacedMax = 4'096;
  Dispatcher& dispatcher_;
  Outbox& outbox_;
  const common::Clock& clock_;
  const int64_t heartbeat_ms_;
  uint64_t ids_made_ = 0;
  uint64_t changes_ = 0;
  std::unordered_map<std::string, Known> known_;  // workers keep their id when they come back
  std::unordered_map<farm::WorkerId, WorkerSession> by_id_;
  std::unordered_map<std::string, farm::WorkerId> by_peer_;
  std::unordered_set<std::string> displaced_;
};

// Why nothing comes of a submit for `wanted` after `wait_ms`.
std::string no_worker_text(const Workers& workers, const std::string& wanted, int64_t wait_ms);

}  // namespace coordinator::service
