// Several coordinators of a cluster, of which one serves: the holder of a Lease.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/kubernetes/leader_lease.h"

namespace coordinator::service {

class Leadership {
 public:
  // kInvalidInput outside of a cluster.
  static common::Result<std::unique_ptr<Leadership>> begin(const common::ClusterOptions& cluster,
                                                           common::LeaderOptions options);
  // Gives the lease up, if it is held.
  ~Leadership();
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Opens what will be served, waits until this process leads, and renews in a thread from then on
  // until the lease is lost. In this order: opening, and what a leader does first, may each take
  // longer than the lease lasts. False when it was told to end: `ends` is asked whenever `stop_fd`
  // is readable. `on_news` is told who leads whenever that changes.
  common::Result<bool> lead(const std::function<common::Status()>& open, int stop_fd,
                            const std::function<bool()>& ends,
                            const std::function<void(const std::string& holder)>& on_news);
  // What is to be done when the lease is lost; done at once if it is lost already, else by the
  // thread that renews.
  void on_loss(std::function<void()> act);
  bool is_lost() const { return is_lost_; }

 private:
  Leadership(common::Cluster cluster, common::LeaderOptions options);
  bool wait(int stop_fd, const std::function<void(const std::string& holder)>& on_news);
  void renew();
  void report();

  common::SteadyClock clock_;
  const common::LeaderOptions options_;
  common::LeaderLease lease_;
  std::string complaint_;
  std::function<void()> on_loss_;
  std::atomic<bool> is_lost_{false};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coordinator::service
