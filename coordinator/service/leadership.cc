#include "coordinator/service/leadership.h"

#include <poll.h>

#include <chrono>
#include <utility>

#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {
namespace {

using common::cat;

int64_t wall_us() { return common::wall_clock_ns() / 1'000; }

}  // namespace

common::Result<std::unique_ptr<Leadership>> Leadership::begin(const common::ClusterOptions& cluster,
                                                              common::LeaderOptions options) {
  LFARM_ASSIGN_OR_RETURN(common::Cluster found, common::Cluster::find(cluster));
  return std::unique_ptr<Leadership>(new Leadership(std::move(found), std::move(options)));
}

Leadership::Leadership(common::Cluster cluster, common::LeaderOptions options)
    : options_(std::move(options)), lease_(std::move(cluster), options_, clock_) {}

Leadership::~Leadership() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (thread_.joinable()) thread_.join();
  lease_.release(wall_us());
}

// Once for each trouble.
void Leadership::report() {
  std::string now = lease_.last().ok() ? "" : lease_.last().error().message;
  if (now != complaint_ && !now.empty()) {
    common::log_warning(cat("lease ", options_.lease, ": ", now));
  }
  complaint_ = std::move(now);
}

common::Result<bool> Leadership::lead(
    const std::function<common::Status()>& open, int stop_fd, const std::function<bool()>& ends,
    const std::function<void(const std::string& holder)>& on_news) {
  LFARM_RETURN_IF_ERROR(open());
  while (!wait(stop_fd, on_news)) {
    if (ends()) return false;
  }
  thread_ = std::thread([this] { renew(); });
  return true;
}

// False when `stop_fd` became readable first.
bool Leadership::wait(int stop_fd, const std::function<void(const std::string&)>& on_news) {
  std::string known;
  bool is_first = true;
  while (true) {
    bool leads = lease_.tend(wall_us());
    report();
    if (is_first || lease_.holder() != known) on_news(known = lease_.holder());
    is_first = false;
    if (leads) return true;
    pollfd stop{stop_fd, POLLIN, 0};
    if (::poll(&stop, 1, static_cast<int>(options_.retry_ms)) > 0) return false;
  }
}

void Leadership::on_loss(std::function<void()> act) {
  std::unique_lock<std::mutex> lock(mutex_);
  on_loss_ = std::move(act);
  if (is_lost_ && on_loss_) on_loss_();
}

void Leadership::renew() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    bool leads = lease_.tend(wall_us());
    report();
    lock.lock();
    if (!leads) {
      is_lost_ = true;
      if (on_loss_) on_loss_();
      return;
    }
    stop_.wait_for(lock, std::chrono::milliseconds(options_.retry_ms), [&] { return stopping_; });
  }
}

}  // namespace coordinator::service
