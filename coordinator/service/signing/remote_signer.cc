#include "coordinator/service/signing/remote_signer.h"

#include <chrono>
#include <thread>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"

namespace coordinator::service {

using common::cat;
using common::Result;

namespace {

constexpr int64_t kAnswerMs = 2'000;
constexpr int64_t kRestNs = 1'000'000'000;
constexpr std::chrono::milliseconds kTryAgain{50};

}  // namespace

common::Error RemoteSigner::away(const std::string& why) const {
  return common::unavailable(cat("no signer answers on ", path_, ": ", why,
                                 "; start it with 'lfarm-coordinator --role sign --socket ", path_,
                                 " --key FILE'"));
}

Result<std::unique_ptr<RemoteSigner>> RemoteSigner::connect(const std::string& path,
                                                            int64_t wait_ms) {
  std::unique_ptr<RemoteSigner> signer(new RemoteSigner(path));
  int64_t deadline_ns = common::SteadyClock().now_ns() + wait_ms * 1'000'000;
  while (true) {
    std::unique_lock lock(signer->mutex_);
    auto answer = signer->ask_once({});
    if (answer.ok()) {
      LFARM_RETURN_IF_ERROR(answer->status);
      signer->authority_ = answer->authority;
      signer->delegation_ = answer->proof.delegation;
      lock.unlock();
      return signer;
    }
    bool is_late = common::SteadyClock().now_ns() >= deadline_ns;
    if (answer.error().code != common::Code::kUnavailable) return answer.error();
    if (is_late) return signer->away(answer.error().message);
    std::this_thread::sleep_for(kTryAgain);
  }
}

Result<SignAnswer> RemoteSigner::ask_once(const SignRequest& request) const {
  auto converse = [&]() -> Result<SignAnswer> {
    if (socket_.get() < 0) {
      LFARM_ASSIGN_OR_RETURN(socket_, connect_to_socket(path_));
    }
    LFARM_RETURN_IF_ERROR(send_frame(socket_.get(), encode(request), kAnswerMs));
    LFARM_ASSIGN_OR_RETURN(common::Bytes frame, receive_frame(socket_.get(), kAnswerMs, kAnswerMs));
    return decode_sign_answer(frame);
  };
  auto answer = converse();
  if (!answer.ok()) socket_ = common::FileDescriptor();
  return answer;
}

// A signer that was started anew in between has closed the connection: that costs one more try.
Result<SignAnswer> RemoteSigner::ask(const SignRequest& request) const {
  bool was_connected = socket_.get() >= 0;
  int64_t began_ns = common::SteadyClock().now_ns();
  auto answer = ask_once(request);
  bool is_hanging = common::SteadyClock().now_ns() - began_ns >= kRestNs;
  if (answer.ok() || !was_connected || is_hanging) return answer;
  return ask_once(request);
}

std::optional<common::Delegation> RemoteSigner::delegation() const {
  std::lock_guard lock(mutex_);
  auto delegation = common::decode_delegation(delegation_);
  return delegation.ok() ? std::optional(*delegation) : std::nullopt;
}

Result<common::Proof> RemoteSigner::sign(Statement statement, common::ByteView bytes) const {
  std::lock_guard lock(mutex_);
  if (common::SteadyClock().now_ns() < rests_until_ns_) return away("it did not a moment ago");
  auto answer = ask({static_cast<uint64_t>(statement), common::to_bytes(bytes)});
  if (!answer.ok()) {
    rests_until_ns_ = common::SteadyClock().now_ns() + kRestNs;
    return away(answer.error().message);
  }
  if (answer->authority != authority_) {
    return common::invalid_input(
        cat("the signer on ", path_, " has the key ", common::to_hex(answer->authority),
            ", and this coordinator began with ", common::to_hex(authority_), "; start it anew"));
  }
  LFARM_RETURN_IF_ERROR(answer->status);
  delegation_ = answer->proof.delegation;
  return std::move(answer->proof);
}

}  // namespace coordinator::service
