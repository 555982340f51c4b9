#include "coordinator/service/workers/workers.h"

#include <algorithm>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/wire/ir_codec.h"
#include "coordinator/service/workers/device_name.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += cat(text.empty() ? "" : ", ", name);
  return text;
}

// A report must speak of the kernels that were asked for.
common::Status check_report(const common::TaskReport& report, const Candidate& task) {
  if (report.kernels.size() != task.kernels.size()) {
    return common::corrupt(cat("its report has ", report.kernels.size(), " kernels; the program ",
                               "has ", task.kernels.size()));
  }
  for (size_t k = 0; k < task.kernels.size(); ++k) {
    if (report.kernels[k].fingerprint != task.kernels[k]) {
      return common::corrupt(cat("its report has another kernel ", k, " than the program"));
    }
  }
  return {};
}

}  // namespace

bool Workers::hello(const std::string& peer, const std::string& address,
                    const common::WorkerHello& hello) {
  Known& who = known(hello.worker_id);
  auto found = by_id_.find(who.id);
  bool returns = found != by_id_.end() && found->second.target == hello.target &&
                 found->second.machine == hello.machine;
  if (!returns) {
    if (found != by_id_.end()) {
      dispatcher_.feed(farm::WorkerGone{who.id, found->second.incarnation, false});
      remove(who.id);
    }
    WorkerSession session;
    session.name = hello.worker_id;
    session.id = who.id;
    session.incarnation = ++who.incarnation;
    session.target = hello.target;
    session.machine = hello.machine;
    session.since_ns = clock_.now_ns();
    found = by_id_.emplace(who.id, std::move(session)).first;
    common::log_info("a worker joined", {{"worker", hello.worker_id},
                                         {"target", hello.target},
                                         {"machine", hello.machine},
                                         {"slots", hello.slots},
                                         {"build", hello.build},
                                         {"address", address}});
  }
  WorkerSession& session = found->second;
  if (session.peer != peer) move_to(session, peer);
  session.address = address;
  if (!returns || session.software.toolchain != hello.toolchain) ++changes_;
  session.software = {hello.build, hello.toolchain, hello.reproducible};
  session.slots_offered = hello.slots;
  // Its credits were told to another connection; what it holds it still holds.
  session.slots = std::min<uint32_t>(static_cast<uint32_t>(session.leases.size()), hello.slots);
  session.foreign.clear();
  announce(session);
  return by_peer_.count(peer) != 0;
}

void Workers::on(const std::string& peer, const common::Credit& message) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  uint64_t slots = uint64_t{session->slots} + message.count;
  session->slots = static_cast<uint32_t>(std::min<uint64_t>(slots, session->slots_offered));
  dispatcher_.feed(farm::WorkerCredit{session->id, session->incarnation, session->slots});
}

void Workers::on(const std::string& peer, const common::Heartbeat& message) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  farm::WorkerId id = session->id;
  std::set<common::TaskLease> named(message.leases.begin(), message.leases.end());
  std::erase_if(session->foreign, [&](const auto& lease) { return named.count(lease) == 0; });
  find_lost_leases(*session, named);
  auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  farm::WorkerHeartbeat event;
  event.worker = id;
  event.incarnation = found->second.incarnation;
  event.slots = found->second.slots;
  // Executors are children: what kills one is reported, and does not kill the worker. So a lost
  // worker blames no candidate, and `executing` stays false.
  for (const common::TaskLease& lease : message.leases) {
    event.leases.push_back({lease.task_id, lease.epoch, false});
  }
  dispatcher_.feed(std::move(event));
}

// What the worker does not name long after it must have arrived, and twice, because a heartbeat may
// have waited here for as long, is lost.
void Workers::find_lost_leases(WorkerSession& session, const std::set<common::TaskLease>& named) {
  int64_t arrived_ns = clock_.now_ns() - 2 * heartbeat_ms_ * 1'000'000;
  std::vector<common::TaskLease> missing;
  for (auto& [lease, state] : session.leases) {
    state.unnamed = named.count(lease) != 0 ? 0 : state.unnamed + 1;
    if (state.unnamed >= 2 && state.sent_ns <= arrived_ns) missing.push_back(lease);
  }
  if (missing.empty()) return;
  common::log_warning(cat("a worker lost ", missing.size(), " leases"), {{"worker", session.name}});
  if (missing.size() == session.leases.size()) {
    // All at once: the process is a new one under the old name.
    session.incarnation = ++known(session.name).incarnation;
    session.leases.clear();
    return announce(session);
  }
  farm::WorkerId id = session.id;
  for (const common::TaskLease& lease : missing) {
    session.leases.erase(lease);
    dispatcher_.feed(farm::LeaseReturned{id, lease.task_id, lease.epoch});
  }
}

void Workers::on(const std::string& peer, common::TaskResult message) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  farm::WorkerId id = session->id;
  CandidateResult result = judge(*session, message);
  ++session->tasks_done;
  give_up_slot(*session, message.lease);
  dispatcher_.report(id, message.lease, std::move(result));
}

CandidateResult Workers::judge(const WorkerSession& session, common::TaskResult& message) const {
  CandidateResult result;
  result.outcome = message.outcome;
  result.message = std::move(message.message);
  result.worker = session.name;
  result.busy_ms = message.busy_ms;
  result.spans = std::move(message.spans);
  const TaskSpec* task = dispatcher_.task(message.lease.task_id);
  if (result.outcome != common::TaskOutcome::kOk || task == nullptr) return result;
  auto report = task->only_build_at != 0 ? common::decode_build_report(message.report)
                                         : common::decode_task_report(message.report);
  common::Status status = report.ok() ? check_report(*report, *task->candidate) : report.error();
  if (status.ok()) {
    result.report = std::move(report).value();
    result.report.toolchain = session.software.toolchain;
    return result;
  }
  common::log_warning(
      cat("a worker's report is not believed: ", status.error().message),
      {{"job", task->job}, {"task", message.lease.task_id}, {"worker", session.name}});
  result.outcome = common::TaskOutcome::kInfra;
  result.message = status.error().message;
  return result;
}

void Workers::on(const std::string& peer, const common::LeaseReturned& message) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  farm::WorkerId id = session->id;
  give_up_slot(*session, message.lease);
  dispatcher_.feed(farm::LeaseReturned{id, message.lease.task_id, message.lease.epoch});
}

// A lease that ends at the worker's side gives no new credit: the worker says when it wants more.
// One of another coordinator had no slot here, unless its revocation gave it one.
void Workers::give_up_slot(WorkerSession& session, const common::TaskLease& lease) {
  session.leases.erase(lease);
  bool had_slot = dispatcher_.has_made(lease.task_id) || session.foreign.erase(lease) != 0;
  if (had_slot && session.slots > 0) --session.slots;
  dispatcher_.feed(farm::WorkerCredit{session.id, session.incarnation, session.slots});
}

void Workers::on(const std::string& peer, const common::WorkerBye&) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  farm::WorkerId id = session->id;
  uint64_t incarnation = session->incarnation;
  common::log_info(cat("a worker left after ", session->tasks_done, " tasks"),
                   {{"worker", session->name}});
  remove(id);
  dispatcher_.feed(farm::WorkerGone{id, incarnation, true});
}

void Workers::drop(const std::string& peer) {
  WorkerSession* session = at_peer(peer);
  if (session == nullptr) return;
  farm::WorkerId id = session->id;
  uint64_t incarnation = session->incarnation;
  common::log_warning("a worker is dropped: its key was revoked", {{"worker", session->name}});
  remove(id);
  dispatcher_.feed(farm::WorkerGone{id, incarnation, false});
}

void Workers::expel(const std::string& name, const std::string& why) {
  auto who = known_.find(name);
  auto found = who == known_.end() ? by_id_.end() : by_id_.find(who->second.id);
  if (found == by_id_.end()) return;
  std::string peer = found->second.peer;
  uint64_t incarnation = found->second.incarnation;
  farm::WorkerId id = who->second.id;
  remove(id);
  dispatcher_.feed(farm::WorkerGone{id, incarnation, false});
  outbox_.refuse(peer, common::Code::kVerification, why);
}

size_t Workers::slots(const std::string& target, const std::string& machine) const {
  size_t sum = 0;
  for (const auto& [id, session] : by_id_) {
    if (session.target == target && session.machine == machine) sum += session.slots;
  }
  return sum;
}

bool Workers::has(const std::string& target, const std::string& machine) const {
  return std::any_of(by_id_.begin(), by_id_.end(), [&](const auto& entry) {
    return entry.second.target == target && entry.second.machine == machine;
  });
}

std::string Workers::class_for(const std::string& target, const std::string& wanted) const {
  std::map<std::string, size_t> offered;
  for (const auto& [id, session] : by_id_) {
    if (session.target == target) offered[session.machine] += session.slots_offered;
  }
  bool is_there = !wanted.empty() && offered.count(wanted) != 0;
  if (offered.empty() || is_there) return wanted;
  // Of equals the first by name, so that the answer does not depend on who came first.
  return std::max_element(offered.begin(), offered.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

bool Workers::has_target(const std::string& target) const {
  return std::any_of(by_id_.begin(), by_id_.end(),
                     [&](const auto& entry) { return entry.second.target == target; });
}

uint32_t Workers::slots_of(farm::WorkerId worker) const {
  auto found = by_id_.find(worker);
  return found == by_id_.end() ? 1 : found->second.slots_offered;
}

bool Workers::has_twin(farm::WorkerId worker) const {
  auto found = by_id_.find(worker);
  if (found == by_id_.end()) return false;
  auto make = found->second.make();
  return make && twin(*make, {found->second.name}) != nullptr;
}

std::optional<WorkerMake> Workers::make_of(const std::string& name) const {
  auto who = known_.find(name);
  if (who == known_.end()) return std::nullopt;
  auto found = by_id_.find(who->second.id);
  return found == by_id_.end() ? std::nullopt : found->second.make();
}

const WorkerSession* Workers::twin(const WorkerMake& make,
                                   const std::set<std::string>& others) const {
  const WorkerSession* best = nullptr;
  auto load = [](const WorkerSession& one) { return std::pair(one.leases.size(), one.name); };
  for (const auto& [id, session] : by_id_) {
    if (others.contains(session.name) || session.make() != make) continue;
    if (best == nullptr || load(session) < load(*best)) best = &session;
  }
  return best;
}

std::set<std::string> Workers::toolchains(const std::string& target,
                                          const std::string& machine) const {
  std::set<std::string> found;
  for (const auto& [id, session] : by_id_) {
    if (session.target == target && session.machine == machine)
      found.insert(session.software.toolchain);
  }
  return found;
}

std::set<std::string> Workers::targets() const {
  std::set<std::string> all;
  for (const auto& [id, session] : by_id_) all.insert(session.target);
  return all;
}

std::string Workers::targets_text() const {
  std::set<std::string> all = targets();
  return all.empty() ? "none" : joined(all);
}

Result<std::string> Workers::resolve_target(const std::string& wanted) const {
  // The smallest name, so that the answer does not depend on who came first.
  std::set<std::string> all = targets();
  if (wanted.empty()) {
    if (all.empty()) return std::string();
    auto cpu = std::find_if(all.begin(), all.end(),
                            [](const auto& target) { return common::family_of(target) == "cpu"; });
    return cpu != all.end() ? *cpu : *all.begin();
  }
  if (!common::is_family(wanted) || all.count(wanted) != 0) return wanted;
  std::erase_if(all, [&](const auto& target) { return !common::is_target(target, wanted); });
  if (all.size() > 1) {
    return common::invalid_input(
        cat("the farm has workers of several ", wanted, " targets; name one of: ", joined(all)));
  }
  return all.empty() ? std::string() : *all.begin();
}

std::string no_worker_text(const Workers& workers, const std::string& wanted, int64_t wait_ms) {
  constexpr const char* kRemedy = "; start one with lfarm-worker or 'lfarm up'";
  if (wanted.empty()) return cat("the farm has no worker", kRemedy);
  return cat("no worker for target ", wanted, " for ", wait_ms,
             " ms, the farm's workers are for: ", workers.targets_text(), kRemedy);
}

std::vector<const WorkerSession*> Workers::sessions() const {
  std::vector<const WorkerSession*> all;
  for (const auto& [id, session] : by_id_) all.push_back(&session);
  std::sort(all.begin(), all.end(),
            [](const WorkerSession* a, const WorkerSession* b) { return a->name < b->name; });
  return all;
}

bool Workers::send(const std::string& name, const common::Message& message) {
  auto who = known_.find(name);
  if (who == known_.end()) return false;
  auto found = by_id_.find(who->second.id);
  return found != by_id_.end() && outbox_.send(found->second.peer, message);
}

std::string Workers::name_of_peer(const std::string& peer) const {
  auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? std::string() : by_id_.at(found->second).name;
}

void Workers::send_task(farm::WorkerId worker, const common::Task& task) {
  auto found = by_id_.find(worker);
  if (found != by_id_.end()) {
    WorkerSession& session = found->second;
    session.leases.emplace(task.lease, WorkerSession::Lease{clock_.now_ns(), 0});
    if (outbox_.send(session.peer, task)) return;
    // It may come back on a new connection, and until then gets nothing more.
    session.leases.erase(task.lease);
    session.slots = static_cast<uint32_t>(session.leases.size());
    dispatcher_.feed(farm::WorkerCredit{session.id, session.incarnation, session.slots});
  }
  dispatcher_.feed(farm::LeaseReturned{worker, task.lease.task_id, task.lease.epoch});
}

void Workers::revoke(farm::WorkerId worker, const common::TaskLease& lease) {
  auto found = by_id_.find(worker);
  if (found == by_id_.end()) return;
  WorkerSession& session = found->second;
  session.leases.erase(lease);
  outbox_.send(session.peer, common::Revoke{lease});
  // The slot that it filled was in no credit to this coordinator, and a worker gives none for what
  // is revoked.
  bool is_new = !dispatcher_.has_made(lease.task_id) && session.foreign.insert(lease).second;
  if (!is_new || session.slots >= session.slots_offered) return;
  ++session.slots;
  dispatcher_.feed(farm::WorkerCredit{session.id, session.incarnation, session.slots});
}

void Workers::ask_for_hello(farm::WorkerId worker) {
  auto found = by_id_.find(worker);
  if (found == by_id_.end()) return;
  std::string peer = found->second.peer;
  remove(worker);
  outbox_.refuse(peer, common::Code::kUnavailable, "the farm does not know this worker; say hello");
}

void Workers::lost(farm::WorkerId worker, bool restarted) {
  auto found = by_id_.find(worker);
  if (found == by_id_.end() || restarted) return;
  common::log_warning("a worker is silent and counts as lost", {{"worker", found->second.name}});
  remove(worker);
}

void Workers::refused(farm::WorkerId worker, farm::Refusal refusal) {
  auto found = by_id_.find(worker);
  if (found == by_id_.end()) return;
  std::string peer = found->second.peer;
  common::log_warning(cat("a worker is refused: ", farm::refusal_name(refusal)),
                      {{"worker", found->second.name}});
  remove(worker);
  outbox_.refuse(peer, common::Code::kInvalidInput,
                 "the farm takes no more workers or targets; stop some or start another farm");
}

std::string Workers::name(farm::WorkerId worker) const {
  auto found = by_id_.find(worker);
  return found == by_id_.end() ? cat("worker ", worker) : found->second.name;
}

WorkerSession* Workers::at_peer(const std::string& peer) {
  auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? nullptr : &by_id_.at(found->second);
}

Workers::Known& Workers::known(const std::string& name) {
  auto found = known_.find(name);
  if (found != known_.end()) return found->second;
  if (known_.size() >= kKnownMax) {
    std::erase_if(known_, [this](const auto& entry) { return by_id_.count(entry.second.id) == 0; });
  }
  return known_.emplace(name, Known{++ids_made_, 0}).first->second;
}

void Workers::move_to(WorkerSession& session, const std::string& peer) {
  auto occupant = by_peer_.find(peer);
  if (occupant != by_peer_.end()) {
    // One connection, one worker: the name it had before is gone.
    farm::WorkerId id = occupant->second;
    uint64_t incarnation = by_id_.at(id).incarnation;
    remove(id);
    dispatcher_.feed(farm::WorkerGone{id, incarnation, false});
  }
  if (!session.peer.empty()) {
    common::log_info("a worker came back on a new connection", {{"worker", session.name}});
    by_peer_.erase(session.peer);
    if (displaced_.size() >= kDisplacedMax) displaced_.clear();
    displaced_.insert(session.peer);
  }
  displaced_.erase(peer);
  session.peer = peer;
  by_peer_.emplace(peer, session.id);
}

void Workers::announce(const WorkerSession& session) {
  dispatcher_.feed(farm::WorkerHello{session.id, session.incarnation,
                                     device_name(session.target, session.machine), session.slots});
}

void Workers::remove(farm::WorkerId id) {
  auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  by_peer_.erase(found->second.peer);
  by_id_.erase(found);
  ++changes_;
}

}  // namespace coordinator::service
