// A session's open connection to its farm: news of better plans, and of revoked ones.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "clients/runtime/farm/farm_client.h"
#include "clients/runtime/session.h"
#include "common/base/random.h"
#include "common/wire/context.h"

namespace clients {

// A thread of its own. Watches the plan of every request of the session, and catches up with what
// it missed whenever it connects. Between two looks at the farm it only waits.
class LiveLink {
 public:
  explicit LiveLink(Session& session);
  ~LiveLink();
  LiveLink(const LiveLink&) = delete;
  LiveLink& operator=(const LiveLink&) = delete;

  // There is a new request, the farm is there, or the session closes. Thread-safe.
  void wake() { waker_.wake(); }
  // Once the session has begun to close: nothing happens from then on.
  void stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  // What is known of a request's plan at the farm.
  struct Watched {
    Time due;             // when the farm is asked for it
    common::Digest key;   // that the farm knows it by
    common::Digest news;  // the plan that the farm told of; zero: none
  };
  void run();
  // Until the connection is lost or the session closes. `connected`: whether there was one.
  common::Status follow(bool* connected);
  common::Status look(FarmClient& farm);
  common::Status bring(FarmClient& farm, PlanRequest& request, Watched& watched);
  void take(const common::PlanNews& news);
  common::Status look_for_revocations(FarmClient& farm);
  void pause(std::chrono::milliseconds time);

  Session& session_;
  common::Waker waker_;
  std::map<std::shared_ptr<PlanRequest>, Watched> watched_;
  Time revocations_due_;
  common::Random random_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace clients
