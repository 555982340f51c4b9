#include "coordinator/service/job/subscribers.h"

#include <algorithm>
#include <utility>

namespace coordinator::service {

namespace {

constexpr int64_t kQuietProgressMs = 1'000;  // a sign of life when nothing changes

}  // namespace

void Subscribers::add(Subscriber subscriber) {
  std::erase_if(all_, [&](const Subscriber& known) {
    return known.peer == subscriber.peer && known.request_id == subscriber.request_id;
  });
  all_.push_back(std::move(subscriber));
}

void Subscribers::remove(const std::string& peer) {
  std::erase_if(all_, [&](const Subscriber& known) { return known.peer == peer; });
}

void Subscribers::keep_only(const std::set<std::string>& key_ids) {
  std::erase_if(all_, [&](const Subscriber& known) { return !key_ids.contains(known.key_id); });
}

bool Subscribers::has(const std::string& peer) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Subscriber& known) { return known.peer == peer; });
}

void Subscribers::accept() {
  for (const Subscriber& subscriber : all_) send_accepted(subscriber);
}

void Subscribers::send_accepted(const Subscriber& subscriber) {
  env_.outbox.send(subscriber.peer,
                   common::Accepted{subscriber.request_id, job_, subscriber.joined});
}

void Subscribers::fail(const common::Error& error, uint32_t again_ms) {
  for (const Subscriber& subscriber : all_) {
    env_.outbox.send(subscriber.peer, common::JobFailed{subscriber.request_id, job_, error.code,
                                                        error.message, "", "", again_ms});
  }
}

void Subscribers::send_plan(common::PlanReady message, const common::SharedBytes& bytes,
                            const std::string& machine) {
  const common::Standing standing = message.standing;
  for (const Subscriber& subscriber : all_) {
    message.request_id = subscriber.request_id;
    bool is_right = machine.empty() || subscriber.machine.empty() || subscriber.machine == machine;
    message.standing = is_right ? standing : common::Standing::kNeighbour;
    env_.outbox.send(subscriber.peer, message, bytes);
  }
}

bool Subscribers::is_due(int64_t now_ns) const {
  return !all_.empty() && now_ns - last_progress_ns_ >= env_.options.times.progress_ms * kNsPerMs;
}

void Subscribers::report(common::Progress progress, int64_t elapsed_ms, int64_t now_ns) {
  bool is_quiet = now_ns - last_progress_ns_ < kQuietProgressMs * kNsPerMs;
  if (progress == last_progress_ && is_quiet) return;
  last_progress_ = progress;
  last_progress_ns_ = now_ns;
  progress.elapsed_ms = static_cast<uint64_t>(std::max<int64_t>(0, elapsed_ms));
  std::erase_if(all_, [&](const Subscriber& subscriber) {
    return !env_.outbox.send(subscriber.peer, progress);
  });
}

}  // namespace coordinator::service
