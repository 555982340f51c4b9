// Workers without a device, many in one process, and users who have models searched for on them:
// load on a farm whose real workers show that plans are right.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tests/chaos/client.h"
#include "tests/chaos/process.h"

namespace chaos {

struct SimulatedOptions {
  std::string program;              // lfarm-simulated-workers
  std::vector<std::string> access;  // its arguments that say where the farm is, and its keys
  int workers = 256;
  std::vector<std::string> client;  // the command of a user, with its connection
  std::string folder;               // for logs and the clients' own; exists
  std::vector<std::string> cases;   // in the order in which they are submitted, again and again
};

class SimulatedLoad {
 public:
  static common::Result<std::unique_ptr<SimulatedLoad>> start(SimulatedOptions options);

  // One look after workers and clients, as Farm::tend(). What must never happen and has.
  std::vector<std::string> tend(int64_t now_ns, bool go_on);
  bool is_quiet() const;
  // Ends the workers; how that went.
  std::string finish(int timeout_ms) { return workers_.finish(timeout_ms); }
  // Of all clients: plans that they were given, and models that have one.
  size_t submits_done() const { return submits_done_; }
  size_t cases_done() const { return plans_.size(); }
  // What clients still wait for; models whose clients were given different plans.
  std::vector<std::string> complaints() const;

 private:
  explicit SimulatedLoad(SimulatedOptions options);
  std::string next_case();

  const SimulatedOptions options_;
  Supervised workers_;
  std::vector<std::unique_ptr<Client>> clients_;
  size_t next_ = 0;  // in the order of submits
  size_t submits_done_ = 0;
  std::map<std::string, std::set<std::string>> plans_;  // of each case
};

}  // namespace chaos
