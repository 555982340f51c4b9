#include "coordinator/service/signing/signer_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <thread>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "coordinator/service/signing/signer_frames.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

// Coordinators of one machine; each has one.
constexpr size_t kConnectionsMax = 64;
// For the rest of a request that has begun, and for taking an answer.
constexpr int64_t kFrameMs = 10'000;
constexpr int kPollMs = 250;

}  // namespace

struct SignerServer::State {
  State(std::string its_path, common::FileDescriptor its_socket, const Signer& its_signer)
      : path(std::move(its_path)), socket(std::move(its_socket)), signer(its_signer) {}

  struct Connection {
    common::FileDescriptor socket;
    std::atomic<bool> is_done{false};
    std::thread thread;
  };

  SignAnswer answer_to(const SignRequest& request);
  void converse(Connection& connection);
  void accept_all();
  void drop_ended();

  const std::string path;
  const common::FileDescriptor socket;
  const Signer& signer;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> signed_count{0}, refused_count{0};
  std::list<Connection> connections;  // of the accepting thread
  std::thread accepting;
};

SignAnswer SignerServer::State::answer_to(const SignRequest& request) {
  SignAnswer answer;
  answer.authority = signer.authority();
  if (request.statement == 0) {
    auto delegation = signer.delegation();
    if (delegation) answer.proof.delegation = common::encode_delegation(*delegation);
    return answer;
  }
  auto statement = static_cast<Statement>(request.statement);
  bool is_known =
      request.statement <= 0xff &&
      std::find(std::begin(kStatements), std::end(kStatements), statement) != std::end(kStatements);
  Result<common::Digest> content =
      is_known ? checked_content(statement, request.bytes, common::wall_clock_ns())
               : common::invalid_input(cat("a statement of kind ", request.statement));
  if (!content.ok()) {
    answer.status = common::invalid_input(cat("the signer refuses: ", content.error().message));
    refused_count.fetch_add(1);
    common::log_warning(answer.status.error().message);
    return answer;
  }
  auto proof = signer.sign(statement, request.bytes);
  if (!proof.ok()) {
    answer.status = proof.error();
    common::log_error(proof.error().message);
    return answer;
  }
  answer.proof = std::move(*proof);
  signed_count.fetch_add(1);
  if (statement == Statement::kPlan || statement == Statement::kRevocations) {
    common::log_info(cat("signed a ", describe(statement, request.bytes)));
  }
  return answer;
}

void SignerServer::State::converse(Connection& connection) {
  int fd = connection.socket.get();
  while (!stopping) {
    auto frame = receive_frame(fd, -1, kFrameMs);
    if (!frame.ok()) break;
    auto request = decode_sign_request(*frame);
    SignAnswer answer;
    if (request.ok()) {
      answer = answer_to(*request);
    } else {
      answer.status = request.error();
      refused_count.fetch_add(1);
    }
    if (!send_frame(fd, encode(answer), kFrameMs).ok()) break;
  }
  // The descriptor stays until the thread has been joined.
  ::shutdown(fd, SHUT_RDWR);
  connection.is_done = true;
}

void SignerServer::State::drop_ended() {
  for (auto it = connections.begin(); it != connections.end();) {
    if (!it->is_done) {
      ++it;
      continue;
    }
    it->thread.join();
    it = connections.erase(it);
  }
}

void SignerServer::State::accept_all() {
  while (!stopping) {
    pollfd one{socket.get(), POLLIN, 0};
    int ready = ::poll(&one, 1, kPollMs);
    drop_ended();
    if (ready <= 0) continue;
    common::FileDescriptor accepted(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.get() < 0) continue;
    if (connections.size() >= kConnectionsMax) {
      common::log_warning(cat("more than ", kConnectionsMax, " connections; one is refused"));
      continue;
    }
    Connection& connection = connections.emplace_back();
    connection.socket = std::move(accepted);
    connection.thread = std::thread([this, &connection] { converse(connection); });
  }
  for (Connection& connection : connections) ::shutdown(connection.socket.get(), SHUT_RDWR);
  for (Connection& connection : connections) connection.thread.join();
}

SignerServer::SignerServer(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->accepting = std::thread([state = state_.get()] { state->accept_all(); });
}

Result<std::unique_ptr<SignerServer>> SignerServer::start(const std::string& path,
                                                          const Signer& signer) {
  LFARM_ASSIGN_OR_RETURN(common::FileDescriptor socket, listen_on_socket(path));
  return std::unique_ptr<SignerServer>(
      new SignerServer(std::make_unique<State>(path, std::move(socket), signer)));
}

SignerServer::~SignerServer() {
  state_->stopping = true;
  state_->accepting.join();
  ::unlink(state_->path.c_str());
}

uint64_t SignerServer::signed_count() const { return state_->signed_count; }
uint64_t SignerServer::refused_count() const { return state_->refused_count; }

}  // namespace coordinator::service
