#include "worker/agent/agent.h"

#include <algorithm>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace worker {
using common::cat;
using common::Code;
using common::Digest;
using common::Packet;
using common::Result;
using common::SharedBytes;
using common::Status;
using common::TaskLease;
using common::TaskOutcome;

namespace {

constexpr int64_t kMs = 1'000'000;
// How long the last messages are offered to a coordinator that does not take them.
constexpr int64_t kFarewellMs = 500;

common::TaskResult infra(const TaskLease& lease, std::string message) {
  common::TaskResult result;
  result.lease = lease;
  result.outcome = TaskOutcome::kInfra;
  result.message = std::move(message);
  return result;
}

common::WorkerHello hello_of(const AgentOptions& options) {
  common::WorkerHello hello;
  hello.worker_id = options.worker_id;
  hello.target = options.target;
  hello.slots = options.slots;
  hello.toolchain = options.toolchain;
  hello.machine = options.machine;
  hello.reproducible = true;
  return hello;
}

}  // namespace

Agent::Agent(common::DealerSocket socket, Pipeline& pipeline, AgentOptions options,
             const common::Clock& clock)
    : link_(std::move(socket), hello_of(options), {options.hello_ms, options.heartbeat_ms}, clock),
      pipeline_(pipeline),
      options_(std::move(options)),
      clock_(clock),
      blobs_(options_.blob_bytes_max) {}

Status Agent::run(int stop_fd) {
  // The descriptor stays readable: a drain of minutes that looked at it would never sleep.
  common::Poller working, draining;
  for (common::Poller* poller : {&working, &draining}) {
    poller->watch(link_.socket());
    poller->watch_fd(pipeline_.results_fd());
  }
  size_t stop = working.watch_fd(stop_fd);
  while (!drained()) {
    if (draining_ && clock_.now_ns() >= drain_end_ns_ + kFarewellMs * kMs) {
      return common::unavailable("the coordinator did not take this worker's last messages");
    }
    LFARM_RETURN_IF_ERROR(step(draining_ ? draining : working, stop));
  }
  return {};
}

Status Agent::step(common::Poller& poller, size_t stop) {
  bool is_told = draining_;
  LFARM_ASSIGN_OR_RETURN([[maybe_unused]] size_t ready, poller.wait(wait_ms()));
  LFARM_RETURN_IF_ERROR(receive());
  take_results();
  expire_leases();
  if (!is_told && poller.ready(stop)) start_draining();
  say_goodbye();
  keep_in_touch();
  link_.flush();
  if (options_.state != nullptr) show_state();
  return {};
}

void Agent::show_state() const {
  AgentState& state = *options_.state;
  int64_t now_ns = clock_.now_ns();
  state.turned_ns = now_ns;
  state.is_joined = link_.is_welcomed();
  if (link_.is_welcomed()) state.has_joined = true;
  state.is_draining = draining_;
  state.leases = static_cast<uint32_t>(held_.size());
  if (!held_.empty()) {
    state.idle_since_ns = 0;
  } else if (state.idle_since_ns == 0) {
    state.idle_since_ns = now_ns;
  }
}

int Agent::wait_ms() const {
  int64_t next = link_.next_ns();
  for (const auto& [lease, held] : held_) next = std::min(next, held.deadline_ns);
  if (draining_) next = std::min(next, clock_.now_ns() + 50 * kMs);
  return static_cast<int>(std::clamp<int64_t>((next - clock_.now_ns()) / kMs + 1, 0, 1'000));
}

Status Agent::receive() {
  for (const Result<Packet>& packet : link_.receive()) {
    if (packet.ok()) {
      LFARM_RETURN_IF_ERROR(on(*packet));
    } else if (!link_.is_welcomed() && packet.error().code == Code::kUnsupported) {
      return packet.error();
    } else {
      common::log_warning(cat("the coordinator sent something invalid: ", packet.error().message));
    }
  }
  return {};
}

Status Agent::on(const Packet& packet) {
  const common::Message& message = packet.message;
  if (const auto* welcome = std::get_if<common::Welcome>(&message)) {
    on_welcome(*welcome);
  } else if (const auto* task = std::get_if<common::Task>(&message)) {
    on_task(*task);
  } else if (const auto* revoke = std::get_if<common::Revoke>(&message)) {
    // The slot goes back to the coordinator, who may fill it at once: no credit.
    pipeline_.cancel(revoke->lease);
    held_.erase(revoke->lease);
  } else if (std::holds_alternative<common::DrainRequest>(message)) {
    start_draining();
  } else if (const auto* blob = std::get_if<common::Blob>(&message)) {
    on_blob(blob->digest, packet.blob);
  } else if (const auto* missing = std::get_if<common::BlobMissing>(&message)) {
    on_blob_missing(missing->digest);
  } else if (const auto* request = std::get_if<common::BlobRequest>(&message)) {
    SharedBytes bytes = blobs_.find(request->digest);
    if (bytes) {
      link_.queue(common::Blob{request->digest}, std::move(bytes));
    } else {
      link_.queue(common::BlobMissing{request->digest});
    }
  } else if (const auto* refused = std::get_if<common::Refused>(&message)) {
    return on_refused(*refused);
  } else if (const auto* ping = std::get_if<common::Ping>(&message)) {
    link_.queue(common::Pong{ping->number});
  }
  return {};
}

void Agent::on_welcome(const common::Welcome& welcome) {
  // Leases of an earlier coordinator are void to this one. Kept, they would fill slots that it
  // knows nothing of, and their revocation would never give it the credit for them.
  if (link_.is_other_than(welcome.coordinator_id)) {
    for (const auto& [lease, entry] : held_) pipeline_.cancel(lease);
    held_.clear();
  }
  if (!link_.join(welcome)) return;
  uint32_t held = static_cast<uint32_t>(held_.size());
  std::set<Digest> missing;  // the requests were told to another connection
  for (const auto& [lease, entry] : held_)
    missing.insert(entry.missing.begin(), entry.missing.end());
  for (const Digest& digest : missing) link_.queue(common::BlobRequest{digest});
  if (!draining_ && held < options_.slots) link_.queue(common::Credit{options_.slots - held});
}

void Agent::on_task(const common::Task& task) {
  if (held_.count(task.lease) != 0) return;
  if (draining_ || held_.size() >= options_.slots) {
    return link_.queue(common::LeaseReturned{task.lease});
  }
  common::log_debug(
      "a task came",
      {{"worker", options_.worker_id}, {"job", task.job}, {"task", task.lease.task_id}});
  Held held;
  held.task = task;
  int64_t room_ms = std::max<int64_t>(0, int64_t{task.deadline_ms} - options_.answer_early_ms);
  held.received_ns = clock_.now_ns();
  held.deadline_ns = held.received_ns + room_ms * kMs;
  for (const Digest& digest : task.blobs) {
    if (!blobs_.find(digest)) held.missing.insert(digest);
  }
  for (const Digest& digest : held.missing) request(digest);
  held_.emplace(task.lease, std::move(held));
  submit_when_complete(task.lease);
}

// Asks for a blob unless another task's request is under way.
void Agent::request(const Digest& digest) {
  bool asked = std::any_of(held_.begin(), held_.end(), [&](const auto& entry) {
    return entry.second.missing.count(digest) != 0;
  });
  if (!asked) link_.queue(common::BlobRequest{digest});
}

void Agent::on_blob(const Digest& digest, const SharedBytes& bytes) {
  blobs_.insert(digest, bytes);
  std::vector<TaskLease> completed;
  for (auto& [lease, held] : held_) {
    if (held.missing.erase(digest) != 0) completed.push_back(lease);
  }
  for (const TaskLease& lease : completed) submit_when_complete(lease);
}

void Agent::on_blob_missing(const Digest& digest) {
  std::vector<TaskLease> hopeless;
  for (const auto& [lease, held] : held_) {
    if (held.missing.count(digest) != 0) hopeless.push_back(lease);
  }
  for (const TaskLease& lease : hopeless) {
    answer(infra(lease, cat("the coordinator lacks the task's blob ", digest.short_hex())));
  }
}

Status Agent::on_refused(const common::Refused& refused) {
  if (refused.code == Code::kUnavailable) {  // it does not know this connection
    link_.forget_welcome();
    return {};
  }
  if (!link_.is_welcomed()) {
    return common::Error{refused.code,
                         cat("the coordinator refused this worker: ", refused.message)};
  }
  common::log_warning(cat("the coordinator refused a message: ", refused.message),
                      {{"worker", options_.worker_id}});
  return {};
}

void Agent::submit_when_complete(const TaskLease& lease) {
  Held& held = held_.at(lease);
  if (held.submitted || !held.missing.empty()) return;
  Job job;
  job.lease = lease;
  job.payload = std::move(held.task.payload);
  job.received_ns = held.received_ns;
  job.deadline_ns = held.deadline_ns;
  job.is_reproducible = held.task.reproducible;
  job.is_only_build = held.task.only_build;
  for (const Digest& digest : held.task.blobs) {
    job.blobs[digest] = blobs_.find(digest);
    if (job.blobs[digest]) continue;
    // Other blobs drove it out before the last one came.
    request(digest);
    held.missing.insert(digest);
    held.task.payload = std::move(job.payload);
    return;
  }
  held.submitted = true;
  pipeline_.submit(std::move(job));
}

void Agent::take_results() {
  for (JobResult& result : pipeline_.take_results()) {
    if (held_.count(result.message.lease) == 0) continue;
    for (auto& [digest, bytes] : result.blobs) {
      blobs_.insert(digest, SharedBytes{common::ByteView(*bytes), bytes});
    }
    answer(std::move(result.message));
  }
}

void Agent::expire_leases() {
  int64_t now = clock_.now_ns();
  std::vector<TaskLease> late;
  for (const auto& [lease, held] : held_) {
    if (now >= held.deadline_ns) late.push_back(lease);
  }
  for (const TaskLease& lease : late) {
    if (!held_.at(lease).submitted || pipeline_.cancel(lease)) {
      give_back(lease);
    } else {
      common::log_warning("a task did not end in time", {{"worker", options_.worker_id},
                                                         {"job", held_.at(lease).task.job},
                                                         {"task", lease.task_id}});
      answer(infra(lease, "the worker did not finish in time"));
    }
  }
  if (!draining_ || now < drain_end_ns_) return;
  std::vector<TaskLease> rest;
  for (const auto& [lease, held] : held_) rest.push_back(lease);
  for (const TaskLease& lease : rest) {
    pipeline_.cancel(lease);
    give_back(lease);
  }
}

void Agent::answer(common::TaskResult result) {
  auto held = held_.find(result.lease);
  common::log_debug(cat("a task ended: ", common::outcome_name(result.outcome)),
                    {{"worker", options_.worker_id},
                     {"job", held->second.task.job},
                     {"task", result.lease.task_id},
                     {"message", result.message}});
  held_.erase(held);
  AgentState* counts = options_.counts != nullptr ? options_.counts : options_.state;
  if (counts != nullptr) {
    ++counts->answered[static_cast<size_t>(result.outcome)];
    for (const common::TaskSpan& span : result.spans) {
      auto step = std::find(kSteps.begin(), kSteps.end(), span.step);
      if (step == kSteps.end()) continue;
      counts->step_us[static_cast<size_t>(step - kSteps.begin())] +=
          static_cast<uint64_t>(span.ms * 1e3);
    }
  }
  link_.queue(std::move(result));
  if (!draining_) link_.queue(common::Credit{1});
}

void Agent::give_back(const TaskLease& lease) {
  held_.erase(lease);
  link_.queue(common::LeaseReturned{lease});
  if (!draining_) link_.queue(common::Credit{1});
}

void Agent::start_draining() {
  if (draining_) return;
  common::log_info("draining: no new tasks are taken",
                   {{"worker", options_.worker_id}, {"leases", held_.size()}});
  draining_ = true;
  drain_end_ns_ = clock_.now_ns() + options_.drain_ms * kMs;
  std::vector<TaskLease> waiting = pipeline_.cancel_waiting();
  for (const auto& [lease, held] : held_) {
    if (!held.submitted) waiting.push_back(lease);
  }
  for (const TaskLease& lease : waiting) {
    if (held_.count(lease) != 0) give_back(lease);
  }
}

// When the last lease has gone, so has the worker.
void Agent::say_goodbye() {
  if (!draining_ || !held_.empty() || said_goodbye_) return;
  link_.queue(common::WorkerBye{});
  said_goodbye_ = true;
}

void Agent::keep_in_touch() {
  if (said_goodbye_ && !link_.is_welcomed()) return;  // no hello any more
  link_.keep_in_touch();
  if (!link_.takes_heartbeat()) return;
  common::Heartbeat heartbeat;
  for (const auto& [lease, held] : held_) heartbeat.leases.push_back(lease);
  link_.queue(std::move(heartbeat));
}

}  // namespace worker
