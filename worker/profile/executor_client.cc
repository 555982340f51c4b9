#include "worker/profile/executor_client.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace worker {
using common::Bytes;
using common::ByteView;
using common::cat;
using common::Status;
using common::TaskOutcome;

namespace {

// A child that closed its pipe has this long to be reaped.
constexpr int kReapMs = 1000;

ProfileReply ended(TaskOutcome outcome, std::string message) {
  ProfileReply reply;
  reply.outcome = outcome;
  reply.message = std::move(message);
  return reply;
}

}  // namespace

// The time that is left, split by who uses it.
struct ExecutorClient::Deadlines {
  const common::PausableGroups& pausable;
  common::SteadyClock clock;
  int64_t total_end = 0;
  int64_t candidate_left = 0;   // ns
  int64_t candidate_since = 0;  // of running_ns(); 0: the candidate does not run now

  void enter(ProfileStage stage) {
    int64_t now = running_ns();
    if (candidate_since != 0) candidate_left -= now - candidate_since;
    candidate_since = runs_candidate(stage) ? now : 0;
  }
  int64_t left_total() const { return total_end - clock.now_ns(); }
  int64_t left_candidate() const {
    if (candidate_since == 0) return INT64_MAX;
    return candidate_left - (running_ns() - candidate_since);
  }

 private:
  // Pauses are not the candidate's time.
  int64_t running_ns() const { return clock.now_ns() - pausable.paused_ns(); }
};

ExecutorClient::Child::~Child() {
  stand_still(false);
  ::close(fd);
}

void ExecutorClient::Child::stand_still(bool may) {
  if (may == is_pausable) return;
  is_pausable = may;
  may ? pausable->add(process.pid()) : pausable->remove(process.pid());
}

ExecutorClient::ExecutorClient(std::vector<std::string> command,
                               std::shared_ptr<const common::Sandbox> sandbox,
                               std::shared_ptr<common::PausableGroups> pausable)
    : command_(std::move(command)),
      sandbox_(std::move(sandbox)),
      pausable_(pausable != nullptr ? std::move(pausable)
                                    : std::make_shared<common::PausableGroups>()) {}
ExecutorClient::~ExecutorClient() = default;

Status ExecutorClient::warm_up() {
  if (child_ != nullptr && !child_->process.poll().has_value()) return {};
  child_.reset();
  auto temporary = common::ScratchDirectory::create("lfarm-executor");
  if (!temporary.ok()) return temporary.error();
  auto pipe = common::make_pipe();
  if (!pipe.ok()) return pipe.error();
  common::SpawnOptions options;
  options.arguments = command_;
  options.stdin_fd = pipe->child;
  options.new_process_group = true;
  auto process = common::start_confined(std::move(options), sandbox_.get(), temporary->path());
  ::close(pipe->child);
  if (!process.ok()) {
    ::close(pipe->parent);
    return process.error();
  }
  child_ = std::make_unique<Child>(std::move(temporary).value(), std::move(process).value(),
                                   pipe->parent, pausable_.get());
  return {};
}

ProfileReply ExecutorClient::run(const ProfileRequest& request, ByteView graph_bytes,
                                 const ProfileLimits& limits) {
  Deadlines deadlines{*pausable_};
  deadlines.total_end = deadlines.clock.now_ns() + int64_t{limits.total_ms} * 1'000'000;
  deadlines.candidate_left = int64_t{limits.candidate_ms} * 1'000'000;
  Status started = warm_up();
  if (!started.ok()) return ended(TaskOutcome::kInfra, started.error().message);
  ProfileRequest limited = request;
  limited.candidate_ms = static_cast<uint32_t>(std::max(0, limits.candidate_ms));
  ProfileReply reply = exchange(encode(limited), deadlines);
  if (reply.kind == ProfileReply::Kind::kNeedGraph) {
    limited.graph_bytes = common::to_bytes(graph_bytes);
    reply = exchange(encode(limited), deadlines);
    if (reply.kind == ProfileReply::Kind::kNeedGraph) {
      reply = ended(TaskOutcome::kInfra, "the executor does not take its graph");
    }
  }
  if (reply.damaged) {
    child_.reset();
    if (reply.outcome == TaskOutcome::kCrash) {
      reply.message = culprit(std::move(limited), graph_bytes, deadlines, reply.message);
    }
  }
  if (child_ == nullptr) {
    Status replaced = warm_up();
    if (!replaced.ok()) common::log_error(replaced.error().message);
  }
  return reply;
}

std::string ExecutorClient::culprit(ProfileRequest request, ByteView graph_bytes,
                                    Deadlines& deadlines, std::string first) {
  if (!warm_up().ok()) return first;
  request.one_by_one = true;
  request.graph_bytes = common::to_bytes(graph_bytes);
  ProfileReply again = exchange(encode(request), deadlines);
  if (again.damaged) child_.reset();
  if (again.outcome == TaskOutcome::kCrash && again.damaged) return again.message;
  return cat(first, " (but not when each call is waited for)");
}

ProfileReply ExecutorClient::exchange(const Bytes& frame, Deadlines& deadlines) {
  Child& child = *child_;
  child.stage = ProfileStage::kReference;
  child.candidate_ran = false;
  deadlines.enter(child.stage);
  child.stand_still(true);
  child.stream.send(frame);
  Bytes received;
  while (true) {
    Status moved = child.stream.pump();
    while (child.stream.take(received)) {
      auto reply = decode_reply(received);
      if (!reply.ok()) {  // the child's memory is not to be trusted any more
        child_.reset();
        return ended(TaskOutcome::kCrash, reply.error().message);
      }
      if (reply->kind != ProfileReply::Kind::kStage) {
        child.stand_still(false);
        return *reply;
      }
      child.stage = reply->stage;
      child.candidate_ran |= runs_candidate(child.stage);
      child.stand_still(may_stand_still(child.stage));
      deadlines.enter(child.stage);
    }
    if (!moved.ok()) return blame_death();
    ProfileReply verdict;
    if (!wait(deadlines, verdict)) {
      child_.reset();
      return verdict;
    }
  }
}

bool ExecutorClient::wait(Deadlines& deadlines, ProfileReply& reply) {
  int64_t candidate = deadlines.left_candidate(), total = deadlines.left_total();
  if (candidate <= 0) {
    reply = ended(TaskOutcome::kHang, "the candidate's code ran longer than allowed");
    return false;
  }
  if (total <= 0) {
    reply = ended(TaskOutcome::kInfra, "the worker did not finish in time");
    return false;
  }
  short events = static_cast<short>(POLLIN | (child_->stream.sent() ? 0 : POLLOUT));
  pollfd fds[2] = {{child_->fd, events, 0}, {interrupt_.fd(), POLLIN, 0}};
  int64_t wait_ms = std::min<int64_t>(std::min(candidate, total) / 1'000'000 + 1, 60'000);
  int ready = ::poll(fds, 2, static_cast<int>(wait_ms));
  if (ready > 0 && (fds[1].revents & POLLIN) != 0) {
    reply = ended(TaskOutcome::kInfra, "interrupted");
    return false;
  }
  return true;
}

// The child closed its end without an answer.
ProfileReply ExecutorClient::blame_death() {
  auto status = child_->process.wait(kReapMs);
  // Memory that the candidate damaged may end the process later, in the worker's own code. Only
  // being killed from outside, as for want of memory, is not its doing there.
  bool killed = status.has_value() && status->signal == SIGKILL;
  bool own_code = !runs_candidate(child_->stage);
  bool innocent = own_code && (killed || !child_->candidate_ran);
  child_.reset();
  std::string how = !status.has_value()   ? "closed its pipe"
                    : status->signal != 0 ? cat("died of ", ::strsignal(status->signal))
                                          : cat("ended with code ", status->code);
  if (innocent) {
    return ended(TaskOutcome::kInfra, cat("the executor ", how, " outside the candidate's code"));
  }
  if (status.has_value() && status->signal == SIGXCPU) {
    return ended(TaskOutcome::kHang, "the candidate's code used up its processor time");
  }
  return ended(TaskOutcome::kCrash,
               cat("the executor ", how, own_code ? " after" : " in", " the candidate's code"));
}

}  // namespace worker
