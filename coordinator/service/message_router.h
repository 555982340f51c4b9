// Message router. Decodes what peers send, checks versions and roles, and dispatches each message
// to the component that handles it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/wire/socket.h"
#include "coordinator/service/job/environment.h"
#include "coordinator/service/jobs/imports.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/jobs/plan_lists.h"
#include "coordinator/service/loop/clients.h"

namespace coordinator::service {

// Not thread-safe.
class MessageRouter {
 public:
  MessageRouter(Environment& environment, JobTable& jobs, std::string coordinator_id);

  void receive(common::Arrival arrival);
  // Of peers whose connections were dropped: what workers among them held goes to others.
  void forget(const std::vector<std::string>& peers);
  // To be called on every turn of the loop.
  void turn(int64_t now_ns);
  const Clients& clients() const { return clients_; }
  const std::string& coordinator_id() const { return coordinator_id_; }

 private:
  // What is known of the message that is being handled.
  struct Sender {
    const std::string& peer;
    const std::string& address;
    const common::Principal& principal;
    common::SharedBytes blob;
  };
  void on(const Sender& from, const common::WorkerHello& message);
  void on(const Sender& from, const common::ClientHello& message);
  void on(const Sender& from, const common::Ping& message);
  void on(const Sender& from, const common::Submit& message);
  void on(const Sender& from, const common::CancelJob& message);
  void on(const Sender& from, const common::PullPlan& message);
  void on(const Sender& from, const common::AskRevocations& message);
  void on(const Sender& from, const common::StatusRequest& message);
  void on(const Sender& from, const common::AskTrace& message);
  void on(const Sender& from, const common::RevokePlan& message);
  void on(const Sender& from, const common::ImportPlans& message);
  void on(const Sender& from, const common::PublishPlan& message);
  void on(const Sender& from, const common::Reverify& message);
  void answer(const std::string& peer, uint64_t request_id,
              common::Result<std::vector<common::Digest>> plans);
  void on(const Sender& from, const common::BlobRequest& message);
  void on(const Sender& from, const common::Blob& message);
  void on(const Sender& from, const common::BlobMissing& message);
  void on(const Sender& from, const common::Pong&);
  void on(const Sender& from, const common::Refused& message);
  // Messages that only workers send.
  void on(const Sender& from, common::TaskResult& message);
  template <class Message>
  void on(const Sender& from, const Message& message);
  void answer_revoked(const std::string& peer, const std::string& tenant,
                      const common::RevokePlan& message,
                      common::Result<std::vector<common::Digest>> revoked);
  bool answer_pull(const std::string& peer, const std::string& tenant,
                   const common::PullPlan& message, bool of_neighbours = false);
  // Whether this coordinator serves the graph's shard.
  bool holds(const std::string& tenant, const common::Digest& graph_hash) const;
  bool serves(const Sender& from, const common::Digest& graph_hash, uint64_t request_id);
  void welcome(const Sender& to, uint32_t version);
  // Empty when they have no version in common; the refusal has been sent.
  std::optional<uint32_t> agree(const Sender& from, const char* who,
                                const common::ProtocolRange& theirs);
  bool is_known(const std::string& peer);

  Environment& env_;
  JobTable& jobs_;
  const std::string coordinator_id_;
  Clients clients_;
  Imports imports_;
  PlanLists plan_lists_;
};

}  // namespace coordinator::service
