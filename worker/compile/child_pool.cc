#include "worker/compile/child_pool.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/pipe.h"
#include "common/process/subprocess.h"

namespace worker {
using common::Bytes;
using common::ByteView;
using common::cat;
using common::Code;
using common::Error;
using common::Result;

namespace {

// A child that closed its pipe has this long to be reaped.
constexpr int kReapMs = 1000;
// A request is given to a second child: the first may have been killed for want of memory, or have
// died of what an earlier request left behind.
constexpr int kAttempts = 2;

int64_t now_ns() { return common::SteadyClock().now_ns(); }

}  // namespace

struct ChildPool::Child {
  Child(common::ScratchDirectory own, common::Subprocess subprocess, int pipe)
      : temporary(std::move(own)), process(std::move(subprocess)), fd(pipe), stream(pipe) {}
  ~Child() { ::close(fd); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  common::ScratchDirectory temporary;  // outlives the process
  common::Subprocess process;
  int fd;
  common::FrameStream stream;
};

// How a child took a request: an answer, a death, or neither in time.
struct ChildPool::Attempt {
  std::optional<Bytes> answer;
  bool died = false;
};

ChildPool::ChildPool(std::vector<std::string> command, size_t children_max,
                     std::shared_ptr<const common::Sandbox> sandbox)
    : command_(std::move(command)),
      children_max_(std::max<size_t>(1, children_max)),
      sandbox_(std::move(sandbox)) {}

ChildPool::~ChildPool() = default;

Result<std::unique_ptr<ChildPool::Child>> ChildPool::start() const {
  LFARM_ASSIGN_OR_RETURN(auto temporary, common::ScratchDirectory::create("lfarm-compile"));
  LFARM_ASSIGN_OR_RETURN(common::PipePair pipe, common::make_pipe());
  common::SpawnOptions options;
  options.arguments = command_;
  options.stdin_fd = pipe.child;
  options.new_process_group = true;
  // Death with the parent is death with the thread that started the child, and any thread may. The
  // closed pipe ends it instead.
  options.die_with_parent = false;
  auto process = common::start_confined(std::move(options), sandbox_.get(), temporary.path());
  ::close(pipe.child);
  if (!process.ok()) {
    ::close(pipe.parent);
    return process.error();
  }
  return std::make_unique<Child>(std::move(temporary), std::move(process).value(), pipe.parent);
}

Result<std::unique_ptr<ChildPool::Child>> ChildPool::acquire(int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  // Relative times, since SteadyClock need not be the condition variable's clock.
  auto has_room = [&] { return !free_.empty() || busy_ < children_max_; };
  changed_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - now_ns()), has_room);
  if (!has_room()) return std::unique_ptr<Child>();
  if (free_.empty()) {
    auto child = start();
    if (child.ok()) ++busy_;
    return child;
  }
  std::unique_ptr<Child> child = std::move(free_.back());
  free_.pop_back();
  ++busy_;
  return child;
}

void ChildPool::release(std::unique_ptr<Child> child) {
  if (child == nullptr) {
    auto replacement = start();
    if (replacement.ok()) {
      child = std::move(replacement).value();
    } else {
      common::log_error(replacement.error().message);
    }
  }
  {
    std::lock_guard lock(mutex_);
    --busy_;
    if (child != nullptr) free_.push_back(std::move(child));
  }
  changed_.notify_one();
}

ChildPool::Attempt ChildPool::ask(Child& child, ByteView request, int64_t deadline_ns) {
  Attempt attempt;
  child.stream.send(request);
  Bytes received;
  while (true) {
    bool open = child.stream.pump().ok();
    if (child.stream.take(received)) {
      attempt.answer = std::move(received);
      return attempt;
    }
    attempt.died = !open;
    int64_t left_ns = deadline_ns - now_ns();
    if (attempt.died || left_ns <= 0) return attempt;
    pollfd wanted{child.fd, static_cast<short>(POLLIN | (child.stream.sent() ? 0 : POLLOUT)), 0};
    ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 60'000)));
  }
}

Result<Bytes> ChildPool::exchange(ByteView request, int timeout_ms) {
  int64_t deadline_ns = now_ns() + int64_t{timeout_ms} * 1'000'000;
  std::string how;
  bool killed = true;
  for (int k = 0; k < kAttempts; ++k) {
    LFARM_ASSIGN_OR_RETURN(std::unique_ptr<Child> child, acquire(deadline_ns));
    if (child == nullptr) break;
    Attempt attempt = ask(*child, request, deadline_ns);
    if (attempt.answer.has_value()) {
      release(std::move(child));
      return std::move(*attempt.answer);
    }
    std::optional<common::ExitStatus> status;
    if (attempt.died) status = child->process.wait(kReapMs);
    child.reset();  // kills what still runs
    release(nullptr);
    if (!attempt.died) break;
    how = !status.has_value()   ? "closed its pipe"
          : status->signal != 0 ? cat("died of ", ::strsignal(status->signal))
                                : cat("ended with code ", status->code);
    killed = killed && status.has_value() && status->signal == SIGKILL;
    if (k + 1 == kAttempts) {
      return Error{killed ? Code::kInternal : Code::kInvalidInput, cat("the process ", how)};
    }
  }
  return Error{Code::kTimedOut, cat("no answer after ", timeout_ms, " ms")};
}

}  // namespace worker
