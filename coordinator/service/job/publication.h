// A plan on its way from the worker that made it to the store: its objects are fetched, another
// worker compiles the same, then it is signed and kept.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "coordinator/service/job/second_build.h"

namespace coordinator::service {

// Not thread-safe.
class Publication {
 public:
  // Called once, from the loop; the publication may be destroyed by it.
  using Done = std::function<void(const common::Status&)>;
  // `job`: whose task a second build is. `built`: by the worker that has the plan's objects.
  Publication(Environment& environment, farm::JobId job, std::string tenant, common::Plan plan,
              KeptPlan how, BuiltProgram built, Done done);
  Publication(const Publication&) = delete;
  Publication& operator=(const Publication&) = delete;

  // Asks the worker for what the store lacks. May call `done` before it returns.
  void begin();
  bool wants_object(const common::Digest& digest) const { return missing_.contains(digest); }
  // `status`: whether the store has it now.
  void object_arrived(const common::Digest& digest, const common::Status& status);
  void object_missing(const std::string& worker, const common::Digest& digest);
  void task_done(const TaskDone& done);
  void tick(int64_t now_ns);
  // Whether it is being written, which cannot be taken back.
  bool is_keeping() const { return is_keeping_; }

 private:
  common::Status ask_for_objects();
  void confirmed(const common::Result<std::string>& second_worker);
  void keep();
  void end(const common::Status& status);

  Environment& env_;
  const std::string tenant_;
  common::Plan plan_;
  const KeptPlan how_;
  const std::string holder_;
  Done done_;
  // Reaches this from background work, for as long as it lives.
  const std::shared_ptr<Publication*> self_ = std::make_shared<Publication*>(this);
  std::set<common::Digest> missing_;
  SecondBuild second_;
  bool is_keeping_ = false;
  int64_t deadline_ns_ = 0;
};

}  // namespace coordinator::service
