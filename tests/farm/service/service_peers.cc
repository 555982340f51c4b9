#include "tests/farm/service/service_peers.h"

#include <stdexcept>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/ir_codec.h"
#include "tests/farm/service/service_script.h"

namespace coordinator::service {

using common::cat;

namespace {

common::DealerSocket connect(common::WireContext& context, const std::string& endpoint,
                             std::optional<common::ClientKeys> keys,
                             common::ProtocolRange protocol) {
  auto socket =
      common::DealerSocket::connect(context, {endpoint, std::move(keys), nullptr, protocol});
  if (!socket.ok()) throw std::runtime_error(socket.error().message);
  return std::move(socket).value();
}

}  // namespace

FakePeer::FakePeer(const std::string& endpoint, std::optional<common::ClientKeys> keys,
                   common::ProtocolRange protocol)
    : socket_(connect(context_, endpoint, std::move(keys), protocol)) {}

void FakePeer::send(const common::Message& message, const common::SharedBytes& blob) {
  if (socket_.send(message, blob) != common::SendOutcome::kSent) {
    throw std::runtime_error(cat("cannot send ", common::message_name(message)));
  }
}

void FakePeer::receive() {
  std::vector<common::Result<common::Packet>> packets;
  socket_.receive(packets, 256);
  for (const auto& packet : packets) {
    if (!packet.ok()) throw std::runtime_error(packet.error().message);
    auto* welcome = std::get_if<common::Welcome>(&packet->message);
    if (welcome != nullptr) socket_.speak(welcome->protocol_version);
    on(*packet);
  }
}

bool converse(const std::vector<FakePeer*>& peers, const std::function<bool()>& done,
              int64_t patience_ms) {
  common::SteadyClock clock;
  int64_t end_ns = clock.now_ns() + patience_ms * 1'000'000;
  common::Poller poller;
  for (FakePeer* peer : peers) poller.watch(peer->socket());
  while (!done()) {
    if (clock.now_ns() > end_ns) return false;
    if (!poller.wait(10).ok()) return false;
    for (FakePeer* peer : peers) {
      peer->receive();
      peer->tend();
    }
  }
  return true;
}

// ---- Client ------------------------------------------------------------------------------------

FakeClient::FakeClient(const std::string& endpoint, std::optional<common::ClientKeys> keys,
                       common::ProtocolRange protocol)
    : FakePeer(endpoint, std::move(keys), protocol) {
  send(common::ClientHello{"client", protocol.min, "test", protocol.max});
}

uint64_t FakeClient::submit(const common::Graph& graph, common::Submit request, bool with_blob) {
  common::SharedBytes bytes = common::share(common::encode_graph(graph));
  request.request_id = ++requests_;
  request.graph = common::digest_of(bytes.bytes);
  if (request.graph_hash.is_zero()) request.graph_hash = common::graph_hash(graph);
  graphs_[request.graph] = bytes;
  send(request, with_blob ? bytes : common::SharedBytes{});
  return requests_;
}

const common::Packet* FakeClient::plan() const {
  for (auto it = inbox.rbegin(); it != inbox.rend(); ++it) {
    if (std::holds_alternative<common::PlanReady>(it->message)) return &*it;
  }
  return nullptr;
}

void FakeClient::on(const common::Packet& packet) {
  inbox.push_back(packet);
  auto* request = std::get_if<common::BlobRequest>(&packet.message);
  if (request == nullptr) return;
  auto found = graphs_.find(request->digest);
  if (gives_graphs && found != graphs_.end()) {
    send(common::Blob{request->digest}, found->second);
  } else {
    send(common::BlobMissing{request->digest});
  }
}

// ---- Worker ------------------------------------------------------------------------------------

FakeWorker::FakeWorker(const std::string& endpoint, std::string name, std::string target,
                       uint32_t slots, std::optional<common::ClientKeys> keys,
                       common::ProtocolRange protocol, FakeMachine machine)
    : FakePeer(endpoint, std::move(keys), protocol),
      name_(std::move(name)),
      target_(std::move(target)),
      toolchain_(std::move(machine.toolchain)),
      machine_(std::move(machine.machine)),
      reproducible_(machine.reproducible),
      slots_(slots) {
  say_hello();
}

void FakeWorker::say_hello() {
  const common::ProtocolRange& protocol = socket().protocol();
  socket().speak(protocol.min);
  send(common::WorkerHello{name_, target_, slots_, protocol.min, "test", protocol.max, toolchain_,
                           machine_, reproducible_});
}

void FakeWorker::tend() {
  uint64_t connections = socket().counters().ready.load();
  if (connections_ != 0 && connections > connections_) say_hello();
  connections_ = connections;
  int64_t now_ns = common::SteadyClock().now_ns();
  if (!heartbeats || welcomes == 0 || now_ns < next_heartbeat_ns_) return;
  next_heartbeat_ns_ = now_ns + heartbeat_ms_ * 1'000'000;
  send(common::Heartbeat{{held.begin(), held.end()}});
}

void FakeWorker::on(const common::Packet& packet) {
  if (auto* welcome = std::get_if<common::Welcome>(&packet.message)) {
    ++welcomes;
    protocol_version = welcome->protocol_version;
    heartbeat_ms_ = welcome->heartbeat_ms;
    if (held.size() < slots_) credit(slots_ - static_cast<uint32_t>(held.size()));
  } else if (auto* task = std::get_if<common::Task>(&packet.message)) {
    tasks.push_back(*task);
    held.insert(task->lease);
    take(*task);
  } else if (auto* blob = std::get_if<common::Blob>(&packet.message)) {
    graphs_.insert(blob->digest);
    std::vector<common::Task> waiting;
    waiting.swap(waiting_);
    for (const common::Task& one : waiting) take(one);
  } else if (auto* revoke = std::get_if<common::Revoke>(&packet.message)) {
    revoked.push_back(*revoke);
    held.erase(revoke->lease);
  } else if (auto* request = std::get_if<common::BlobRequest>(&packet.message)) {
    auto found = objects_.find(request->digest);
    if (objects_refused == 0 && found != objects_.end()) {
      send(common::Blob{request->digest}, found->second);
    } else {
      objects_refused -= objects_refused > 0 ? 1 : 0;
      send(common::BlobMissing{request->digest});
    }
  } else if (auto* refused = std::get_if<common::Refused>(&packet.message)) {
    ++refusals;
    refusal = refused->message;
    if (refused->code == common::Code::kUnavailable) say_hello();
  }
}

void FakeWorker::take(const common::Task& task) {
  for (const common::Digest& graph : task.blobs) {
    if (graphs_.count(graph) != 0) continue;
    waiting_.push_back(task);
    return send(common::BlobRequest{graph});
  }
  if (answered >= answers_max) return held_tasks_.push_back(task);
  answer(task);
}

void FakeWorker::release() {
  answers_max = SIZE_MAX;
  std::vector<common::Task> tasks_held;
  tasks_held.swap(held_tasks_);
  for (const common::Task& task : tasks_held) answer(task);
}

void FakeWorker::answer(const common::Task& task) {
  ++answered;
  held.erase(task.lease);
  common::TaskResult result;
  result.lease = task.lease;
  result.outcome = judge ? judge(task) : common::TaskOutcome::kOk;
  if (result.outcome == common::TaskOutcome::kOk) {
    common::TaskReport made = report(task);
    if (tamper) tamper(made);
    result.blobs = made.objects;
    result.report = common::encode_task_report(made);
  } else {
    result.message = "the test says so";
  }
  result.spans = spans;
  send(result);
  credit(1);
}

common::TaskReport FakeWorker::report(const common::Task& task) {
  ScriptedReport made = scripted_report(task.payload, object_salt, one_object);
  objects_.merge(made.objects);
  if (task.only_build) {
    made.report.total_ns = 0;  // nothing ran
    made.report.kernel_ns.clear();
  }
  return std::move(made.report);
}

}  // namespace coordinator::service
