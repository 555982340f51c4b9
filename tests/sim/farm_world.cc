#include "farm_world.h"

#include <algorithm>
#include <cstdio>

#include "common/base/cat.h"
#include "common/base/hash64.h"
#include "farm_packets.h"

namespace sim {

using common::cat;

namespace {
const std::vector<std::string> kTargets = {"cpu", "cuda"};
constexpr int64_t kAskAgainMs = 3'000;
}  // namespace

Config config_of_a_fast_farm() {
  Config config;
  config.times.heartbeat_timeout_ms = 5'000;
  config.times.lease_ms = 8'000;
  config.times.lease_slack_ms = 6'000;
  config.times.elsewhere_ms = 2'000;
  config.times.no_worker_grace_ms = 10'000;
  config.infra_failures_max = 5;
  config.given_up_max = 3;
  config.times.suspend_ms_min = 500;
  config.times.suspend_ms_max = 2'000;
  return config;
}

World::World(uint64_t seed, const Faults& faults, bool verbose, Defect defect)
    : Scene(seed, faults, defect), verbose_(verbose), desk_(*this) {
  make_workers();
  make_clients();
  at(0, [this] { tick(); });
  at(1'000, [this] { each_second(); });
}

void World::at(int64_t ms, std::function<void()> what) {
  later_.push({std::max(ms, now_ms_), order_++, std::move(what)});
}

void World::fail(const std::string& what) {
  if (report.failure.empty()) report.failure = cat(what, " (at ", now_ms_, " ms)");
}

void World::record(const std::string& line) {
  report.trace = common::combine64(report.trace, common::hash64(line));
  if (verbose_) std::printf("%8lld %s\n", static_cast<long long>(now_ms_), line.c_str());
}

Report World::run() {
  while (!later_.empty() && report.failure.empty() && !is_done()) {
    // A task is run once, so its function may be moved out of the queue's constant top.
    Later next = std::move(const_cast<Later&>(later_.top()));
    later_.pop();
    now_ms_ = next.at_ms;
    if (now_ms_ > kEndMs) {
      size_t waiting = 0;
      for (const auto& [key, client] : clients_) waiting += !client.is_over;
      fail(cat(desk_.auditor().open_tasks(), " tasks are open and ", waiting,
               " clients wait long after the faults"));
      break;
    }
    next.what();
  }
  const Auditor& auditor = desk_.auditor();
  if (report.failure.empty() && auditor.no_worker_reported()) {
    fail("a job is still told that it has no worker");
  }
  report.committed = auditor.committed();
  report.given_up = auditor.given_up();
  report.stale = auditor.stale();
  report.quarantined = auditor.quarantined();
  report.no_worker = auditor.no_worker_reports();
  report.fair_choices = auditor.fair_choices();
  report.longest_ms = now_ms_;
  return report;
}

bool World::is_done() const {
  if (faulty() || !desk_.is_quiet()) return false;
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& entry) { return entry.second.is_over; });
}

// ---- Clients -----------------------------------------------------------------------------------

void World::make_clients() {
  uint64_t jobs = (1 + random.below(6)) * (faults.is_large ? 5 : 1);
  for (uint64_t key = 1; key <= jobs; ++key) {
    auto plan = std::make_shared<JobPlan>();
    plan->key = key;
    plan->tenant = random.chance(0.5) ? "red" : "blue";
    plan->priority = static_cast<uint32_t>(1 + random.below(20));
    Client& client = clients_[key];
    client.start_ms = below_ms(20'000);
    // Some know from the start what they want measured, others find out as they go.
    bool is_burst = random.chance(0.5);
    for (uint64_t left = 1 + random.below(40); left > 0; --left) {
      Candidate candidate;
      candidate.target = kTargets[random.below(kTargets.size())];
      candidate.cost = static_cast<uint32_t>(1 + random.below(FairnessWatch::kCostMax));
      candidate.at_ms = client.start_ms + 1 + (is_burst ? 0 : below_ms(25'000));
      if (random.chance(0.9)) {
        candidate.fingerprint = common::digest_of(cat("candidate ", random.below(40)));
      }
      plan->candidates.push_back(std::move(candidate));
    }
    client.plan = std::move(plan);
    at(client.start_ms, [this, key] { ask(key); });
  }
}

// Again and again until there is an answer: either message may be lost.
void World::ask(uint64_t key) {
  const Client& client = clients_.at(key);
  if (client.is_over) return;
  if (!strikes(faults.drop)) {
    at(now_ms_ + 1 + below_ms(20), [this, plan = client.plan] { desk_.submit(plan); });
  }
  at(now_ms_ + kAskAgainMs, [this, key] { ask(key); });
}

void World::to_client(uint64_t key, News news) {
  if (news == News::kAccepted || strikes(faults.drop)) return;
  at(now_ms_ + 1 + below_ms(20), [this, key] { clients_.at(key).is_over = true; });
}

// ---- Time and trouble --------------------------------------------------------------------------

void World::tick() {
  desk_.tick();
  at(now_ms_ + 200 + below_ms(200), [this] { tick(); });
}

void World::each_second() {
  for (auto& [id, worker] : workers_) {
    if (worker.up && strikes(faults.crash)) stop(worker);
    if (worker.up && strikes(faults.freeze)) {
      worker.frozen_until_ms = std::min(now_ms_ + below_ms(15'000), kFaultsEndMs);
    }
    if (worker.up && strikes(faults.partition)) {
      worker.cut_off_until_ms = std::min(now_ms_ + below_ms(20'000), kFaultsEndMs);
    }
    if (worker.up && strikes(faults.drain)) worker.draining = true;
    if (worker.up && now_ms_ >= worker.frozen_until_ms) beat(worker);
  }
  trouble_coordinator();
  at(now_ms_ + 1'000, [this] { each_second(); });
}

void World::trouble_coordinator() {
  if (strikes(faults.cancel)) {
    uint64_t key = 1 + random.below(clients_.size());
    Client& client = clients_.at(key);
    if (now_ms_ > client.start_ms && !client.is_over) {
      client.is_over = true;
      desk_.cancel(key);
    }
  }
  if (strikes(faults.full_disk)) {
    desk_.disk().fill_until(std::min(now_ms_ + below_ms(20'000), kFaultsEndMs));
  }
  if (strikes(faults.stall)) {
    desk_.stall_until(std::min(now_ms_ + below_ms(15'000), kFaultsEndMs));
  }
  if (strikes(faults.restart)) desk_.kill(now_ms_ + below_ms(5'000));
  if (strikes(faults.failover)) {
    desk_.fail_over(now_ms_ + below_ms(5'000));
    // Others want the same models of the new leader.
    for (auto& [key, client] : clients_) {
      if (!client.is_over || !random.chance(0.3)) continue;
      client.is_over = false;
      ask(key);
    }
  }
  if (strikes(faults.outage)) {
    desk_.cut_off_shared_store(std::min(now_ms_ + below_ms(20'000), kFaultsEndMs));
  }
  if (strikes(faults.revoke)) {
    uint64_t key = 1 + random.below(clients_.size());
    Client& client = clients_.at(key);
    // It runs the plan, hears of the withdrawal, and wants another one.
    if (client.is_over && desk_.revoke(key)) {
      client.is_over = false;
      ask(key);
    }
  }
}

// ---- The network -------------------------------------------------------------------------------

int64_t World::arrival_ms(int64_t& last_ms) {
  int64_t delay_ms = 1 + below_ms(20);
  if (strikes(faults.long_delay)) delay_ms += below_ms(4'000);
  int64_t arrival = now_ms_ + delay_ms;
  if (faults.in_order) arrival = std::max(arrival, last_ms);
  last_ms = arrival;
  return arrival;
}

void World::to_farm(Worker& worker, const Event& event) {
  if (now_ms_ < worker.cut_off_until_ms || strikes(faults.drop)) return;
  if (strikes(faults.corrupt)) return damage(worker, event);
  for (int copies = strikes(faults.duplicate) ? 2 : 1; copies > 0; --copies) {
    at(arrival_ms(worker.last_to_farm_ms),
       [this, id = worker.id, connection = worker.connection, event] {
         Worker& worker = workers_.at(id);
         if (worker.connection != connection) return;
         if (std::holds_alternative<WorkerHello>(event)) worker.known_connection = connection;
         desk_.from_worker(event);
       });
  }
}

// What CURVE does with a flipped bit: the packet does not authenticate, and the connection ends.
// The decoder, which would be all there is on a loopback socket, must bear it too.
void World::damage(Worker& worker, const Event& event) {
  Damaged damaged = damage_on_the_way(event, random);
  ++report.damaged;
  report.undecodable += !damaged.decodes;
  if (damaged.event && has(Defect::kBelievesDamagedMessages)) {
    return desk_.from_worker(*damaged.event);
  }
  lose_connection(worker);
}

// What is under way is lost. The worker comes again and says hello.
void World::lose_connection(Worker& worker) {
  ++worker.connection;
  at(now_ms_ + 50 + below_ms(1'000),
     [this, id = worker.id, connection = worker.connection, incarnation = worker.incarnation] {
       Worker& worker = workers_.at(id);
       bool same = worker.connection == connection && worker.incarnation == incarnation;
       if (worker.up && same) hello(worker);
     });
}

void World::to_worker(WorkerId id, const Action& action) {
  Worker& worker = workers_.at(id);
  if (now_ms_ < worker.cut_off_until_ms || strikes(faults.drop)) return;
  if (strikes(faults.corrupt)) {
    ++report.damaged;
    return lose_connection(worker);
  }
  // An orderly network delivers to the process that the farm has heard of, or to none.
  bool is_answer = std::holds_alternative<WorkerUnknown>(action);
  uint64_t connection = faults.in_order && !is_answer ? worker.known_connection : worker.connection;
  for (int copies = strikes(faults.duplicate) ? 2 : 1; copies > 0; --copies) {
    at(arrival_ms(worker.last_from_farm_ms),
       [this, id, connection, action] { deliver(id, connection, action); });
  }
}

void World::deliver(WorkerId id, uint64_t connection, const Action& action) {
  Worker& worker = workers_.at(id);
  if (!worker.up || worker.connection != connection) return;
  if (now_ms_ >= worker.frozen_until_ms) return receive(worker, action);
  at(worker.frozen_until_ms, [this, id, connection, action] { deliver(id, connection, action); });
}

// ---- Workers -----------------------------------------------------------------------------------

void World::make_workers() {
  WorkerId workers = (2 + random.below(6)) * (faults.is_large ? 5 : 1);
  for (WorkerId id = 1; id <= workers; ++id) {
    Worker& worker = workers_[id];
    worker.id = id;
    worker.target = kTargets[id % kTargets.size()];
    worker.slots = static_cast<uint32_t>(1 + random.below(3));
    bool late = faults.late_workers && worker.target == "cuda";
    at(late ? 30'000 : below_ms(2'000), [this, id] { start(workers_.at(id)); });
  }
}

void World::start(Worker& worker) {
  worker.up = true;
  worker.draining = false;
  worker.frozen_until_ms = 0;
  ++worker.incarnation;
  ++worker.connection;
  worker.held.clear();
  worker.over.clear();
  hello(worker);
}

// The process dies; another one starts after a while.
void World::stop(Worker& worker) {
  worker.up = false;
  worker.held.clear();
  at(now_ms_ + 100 + below_ms(8'000), [this, id = worker.id] {
    if (!workers_.at(id).up) start(workers_.at(id));
  });
}

void World::hello(Worker& worker) {
  to_farm(worker, WorkerHello{worker.id, worker.incarnation, worker.target, worker.slots});
}

void World::beat(Worker& worker) {
  WorkerHeartbeat heartbeat{worker.id, worker.incarnation, worker.slots, {}};
  for (const auto& [lease, running] : worker.held) {
    heartbeat.leases.push_back({lease.first, lease.second, running.since_ms < now_ms_});
  }
  to_farm(worker, heartbeat);
  if (worker.draining) to_farm(worker, WorkerDrain{worker.id, worker.incarnation});
  if (worker.draining && !worker.held.empty() && !worker.held.begin()->second.dying &&
      random.chance(0.3)) {
    Lease lease = worker.held.begin()->first;
    worker.held.erase(lease);
    worker.over.insert(lease);
    to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
  }
}

void World::receive(Worker& worker, const Action& action) {
  if (auto* send = std::get_if<SendTask>(&action)) take(worker, *send);
  if (auto* revoke = std::get_if<RevokeLease>(&action)) {
    Lease lease{revoke->task, revoke->epoch};
    worker.over.insert(lease);
    auto held = worker.held.find(lease);
    if (held == worker.held.end() || held->second.dying) return;
    held->second.dying = true;
    at(now_ms_ + below_ms(1'500), [this, id = worker.id, incarnation = worker.incarnation, lease] {
      bury(workers_.at(id), incarnation, lease);
    });
  }
  if (std::holds_alternative<WorkerUnknown>(action)) hello(worker);
  if (std::holds_alternative<WorkerDrained>(action) && worker.draining && worker.held.empty()) {
    to_farm(worker, WorkerGone{worker.id, worker.incarnation, true});
    stop(worker);
  }
}

// The executor of a revoked lease is dead and its slot free.
void World::bury(Worker& worker, uint64_t incarnation, Lease lease) {
  if (worker.incarnation != incarnation || worker.held.erase(lease) == 0) return;
  if (random.chance(0.5)) to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
}

World::Nature World::nature(const common::Digest& fingerprint) const {
  if (!faults.bad_candidates || fingerprint.is_zero()) return Nature::kGood;
  switch (fingerprint.prefix64() % 20) {
    case 0:
      return Nature::kKills;
    case 1:
      return Nature::kFreezes;
    case 2:
      return Nature::kCrashes;
    case 3:
      return Nature::kHangs;
    case 4:
      return Nature::kWrong;
    case 5:
      return Nature::kRefused;
    case 6:
    case 7:
      return Nature::kSlow;
    default:
      return Nature::kGood;
  }
}

void World::take(Worker& worker, const SendTask& task) {
  Lease lease{task.task, task.epoch};
  if (worker.held.count(lease) != 0 || worker.over.count(lease) != 0) return;
  if (worker.held.size() >= worker.slots) {
    ++report.overfull;
    record(cat("worker ", worker.id, " has no slot for ", task.task, '/', task.epoch));
    worker.over.insert(lease);
    return to_farm(worker, LeaseReturned{worker.id, lease.first, lease.second});
  }
  int64_t takes_ms = 20 + below_ms(400);
  Nature nature = this->nature(desk_.auditor().fingerprint(task.task));
  if (nature == Nature::kSlow) takes_ms = kRunLimitMs - 100;
  if (nature == Nature::kHangs) takes_ms = kRunLimitMs;
  worker.held[lease] = {now_ms_};
  if (nature == Nature::kFreezes) return;  // until it is revoked
  at(now_ms_ + takes_ms, [this, id = worker.id, incarnation = worker.incarnation, lease] {
    finish(id, incarnation, lease);
  });
}

void World::finish(WorkerId id, uint64_t incarnation, Lease lease) {
  Worker& worker = workers_.at(id);
  if (!worker.up || worker.incarnation != incarnation) return;
  if (now_ms_ < worker.frozen_until_ms) {
    return at(worker.frozen_until_ms,
              [this, id, incarnation, lease] { finish(id, incarnation, lease); });
  }
  auto held = worker.held.find(lease);
  if (held == worker.held.end() || held->second.dying) return;
  bool is_sick = faults.sick_target && worker.target == "cuda";
  if (is_sick || strikes(faults.infra)) return report_outcome(worker, lease, TaskOutcome::kInfra);
  switch (nature(desk_.auditor().fingerprint(lease.first))) {
    case Nature::kKills:
      return stop(worker);
    case Nature::kCrashes:
      return report_outcome(worker, lease, TaskOutcome::kCrash);
    case Nature::kHangs:
      return report_outcome(worker, lease, TaskOutcome::kHang);
    case Nature::kWrong:
      return report_outcome(worker, lease, TaskOutcome::kWrong);
    case Nature::kRefused:
      return report_outcome(worker, lease, TaskOutcome::kCompileError);
    default:
      return report_outcome(worker, lease, TaskOutcome::kOk);
  }
}

void World::report_outcome(Worker& worker, Lease lease, TaskOutcome outcome) {
  worker.held.erase(lease);
  worker.over.insert(lease);
  Handle result = ++results_made_;
  desk_.found(result, lease.first, outcome);
  to_farm(worker, TaskResult{worker.id, lease.first, lease.second, outcome, result});
}

}  // namespace sim
