// For tests of connections: waits, with a deadline, until something has come or happened.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "common/wire/socket.h"

namespace common {

inline constexpr std::chrono::seconds kTestPatience{600};

// Receives on both sides until `done`; false when the test's patience ends first.
class Peers {
 public:
  std::vector<Arrival> arrivals;        // what the router got
  std::vector<Result<Packet>> packets;  // what the dealer got

  bool until(RouterSocket* router, DealerSocket* dealer, const std::function<bool()>& done) {
    Poller poller;
    if (router != nullptr) poller.watch(*router);
    if (dealer != nullptr) poller.watch(*dealer);
    auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (!poller.wait(100).ok()) return false;
      if (router != nullptr) router->receive(arrivals, 64);
      if (dealer != nullptr) dealer->receive(packets, 64);
    }
    return true;
  }
};

}  // namespace common
