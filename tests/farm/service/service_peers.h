// A client and a worker that speak the real protocol, for tests of the coordinator.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ir/hlir/graph.h"
#include "common/wire/socket.h"
#include "common/wire/task.h"

namespace coordinator::service {

// One connection; what arrives is handed to the subclass while a Stage waits.
class FakePeer {
 public:
  explicit FakePeer(const std::string& endpoint,
                    std::optional<common::ClientKeys> keys = std::nullopt,
                    common::ProtocolRange protocol = common::kProtocolsSpoken);
  virtual ~FakePeer() = default;
  void send(const common::Message& message, const common::SharedBytes& blob = {});
  common::DealerSocket& socket() { return socket_; }
  void receive();
  virtual void tend() {}

 protected:
  virtual void on(const common::Packet& packet) = 0;

 private:
  common::WireContext context_;
  common::DealerSocket socket_;
};

// Keeps everything it is told; gives its graphs to who asks.
class FakeClient final : public FakePeer {
 public:
  explicit FakeClient(const std::string& endpoint,
                      std::optional<common::ClientKeys> keys = std::nullopt,
                      common::ProtocolRange protocol = common::kProtocolsSpoken);
  // Returns the request id. The bytes go with the message, or wait for a BlobRequest.
  uint64_t submit(const common::Graph& graph, common::Submit request, bool with_blob = true);
  template <class Message>
  const Message* last() const {
    for (auto it = inbox.rbegin(); it != inbox.rend(); ++it) {
      if (auto* message = std::get_if<Message>(&it->message)) return message;
    }
    return nullptr;
  }
  template <class Message>
  size_t count() const {
    size_t count = 0;
    for (const common::Packet& packet : inbox) {
      count += std::holds_alternative<Message>(packet.message) ? 1 : 0;
    }
    return count;
  }
  // The packet that brought the last PlanReady.
  const common::Packet* plan() const;

  std::vector<common::Packet> inbox;
  bool gives_graphs = true;

 private:
  void on(const common::Packet& packet) override;
  uint64_t requests_ = 0;
  std::map<common::Digest, common::SharedBytes> graphs_;
};

// What a worker says of the machine that it is on.
struct FakeMachine {
  std::string machine;  // class
  std::string toolchain = {};
  bool reproducible = false;
};

// Answers each task as the agent of a real worker would, in no time.
class FakeWorker final : public FakePeer {
 public:
  FakeWorker(const std::string& endpoint, std::string name, std::string target, uint32_t slots = 2,
             std::optional<common::ClientKeys> keys = std::nullopt,
             common::ProtocolRange protocol = common::kProtocolsSpoken, FakeMachine machine = {});
  void tend() override;
  void bye() { send(common::WorkerBye{}); }
  // Says hello once more, with this.
  void use_toolchain(std::string toolchain) {
    toolchain_ = std::move(toolchain);
    say_hello();
  }
  void credit(uint32_t count) { send(common::Credit{count}); }
  // Answers what it holds back.
  void release();

  // The outcome for a task; by default every task is right.
  std::function<common::TaskOutcome(const common::Task&)> judge;
  size_t answers_max = SIZE_MAX;  // tasks beyond it are held
  size_t objects_refused = 0;     // so many requests for objects are answered with BlobMissing
  std::function<void(common::TaskReport&)> tamper;
  std::vector<common::TaskSpan> spans;  // of every result
  bool heartbeats = true;
  std::string object_salt;  // objects of workers with different salts differ
  bool one_object = false;  // that holds all kernels of all programs
  std::vector<common::Task> tasks;
  std::vector<common::Revoke> revoked;
  size_t answered = 0;
  size_t welcomes = 0;
  size_t refusals = 0;
  std::string refusal;            // the last one
  uint32_t protocol_version = 0;  // of the last welcome
  std::set<common::TaskLease> held;

 private:
  void on(const common::Packet& packet) override;
  void say_hello();
  void take(const common::Task& task);
  void answer(const common::Task& task);
  common::TaskReport report(const common::Task& task);

  std::string name_, target_, toolchain_, machine_;
  bool reproducible_;
  uint32_t slots_;
  uint64_t connections_ = 0;
  int64_t next_heartbeat_ns_ = 0;
  int64_t heartbeat_ms_ = 1000;
  std::map<common::Digest, common::SharedBytes> objects_;
  std::set<common::Digest> graphs_;       // that have come
  std::vector<common::Task> waiting_;     // for their graph
  std::vector<common::Task> held_tasks_;  // beyond answers_max
};

// Lets all peers talk until `done`; false when the test's patience ends first.
bool converse(const std::vector<FakePeer*>& peers, const std::function<bool()>& done,
              int64_t patience_ms = 600'000);

}  // namespace coordinator::service
