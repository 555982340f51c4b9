// The clients that wait for one job, and what they are told.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// A client that waits for the job, under the number of its request.
struct Subscriber {
  std::string peer;
  uint64_t request_id = 0;
  bool joined = false;
  std::string key_id = {};   // see common::Principal
  std::string machine = {};  // class that it asked for; empty: any
};

// Not thread-safe.
class Subscribers {
 public:
  Subscribers(const Environment& environment, farm::JobId job) : env_(environment), job_(job) {}

  // A peer's later request takes the place of an earlier one with the same number.
  void add(Subscriber subscriber);
  void remove(const std::string& peer);
  // Removes all whose key is not among these.
  void keep_only(const std::set<std::string>& key_ids);
  void clear() { all_.clear(); }
  const std::vector<Subscriber>& all() const { return all_; }
  bool empty() const { return all_.empty(); }
  bool has(const std::string& peer) const;

  // The job is on the disk: every client, or the one that came last, is told.
  void accept();
  void accept_last() { send_accepted(all_.back()); }
  void fail(const common::Error& error, uint32_t again_ms = 0);
  // `message` takes each one's request number and, where the client asked for another machine class
  // than `machine` (empty: any), the standing of a neighbour's plan.
  void send_plan(common::PlanReady message, const common::SharedBytes& bytes,
                 const std::string& machine);
  // When something has changed, and now and then else; not sooner than progress_ms after the last.
  // Who cannot be reached is removed.
  void report(common::Progress progress, int64_t elapsed_ms, int64_t now_ns);
  // Whether it is time for the next report.
  bool is_due(int64_t now_ns) const;

 private:
  void send_accepted(const Subscriber& subscriber);

  const Environment& env_;
  const farm::JobId job_;
  std::vector<Subscriber> all_;
  common::Progress last_progress_;
  int64_t last_progress_ns_ = 0;
};

}  // namespace coordinator::service
