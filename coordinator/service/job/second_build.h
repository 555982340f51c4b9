// Second build: before a plan is signed, another worker of the same make compiles the plan's
// program again, and both must have the same objects.
//
//   w1: kernel 7f3a.. -> object 91c0..      w2: kernel 7f3a.. -> object 91c0..   signed
//   w1: kernel 7f3a.. -> object 91c0..      w2: kernel 7f3a.. -> object 04de..   a third one
//   decides
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/service/job/environment.h"

namespace coordinator::service {

// A whole program, and who compiled it.
struct BuiltProgram {
  std::shared_ptr<const Candidate> candidate;  // null: it ran before a restart and is not known
  std::string worker;
  std::optional<WorkerMake> make;  // the worker's; empty where it did not compile reproducibly
};

// Not thread-safe.
class SecondBuild {
 public:
  // The worker whose objects are the same; empty where the farm has no other worker of the make, or
  // none that compiled the program. kVerification when two workers' objects differ. Called once;
  // this may be destroyed by it.
  using Done = std::function<void(common::Result<std::string>)>;
  // `job`: whose tasks the builds are. `plan`: with the objects of `built`.
  SecondBuild(Environment& environment, farm::JobId job, BuiltProgram built,
              const common::Plan& plan, Done done);
  SecondBuild(const SecondBuild&) = delete;
  SecondBuild& operator=(const SecondBuild&) = delete;

  // Asks a second worker. May call `done` before it returns.
  void begin();
  void task_done(const TaskDone& done);
  void tick(int64_t now_ns);

 private:
  // What a kernel became: its launch, and the object that has its code.
  struct Code {
    common::PlanKernel launch;
    common::Digest object;
    friend bool operator==(const Code&, const Code&) = default;
  };
  using Build = std::map<common::Digest, Code>;  // by the kernels' fingerprints
  struct Answer {
    std::string worker;
    Build build;
  };
  static Build build_of(const std::vector<common::PlanKernel>& kernels,
                        const std::vector<common::Digest>& objects);
  void ask();
  void judge();
  void blame(const std::string& worker, const std::string& other, const std::string& another);
  std::string difference() const;
  void end(common::Result<std::string> second_worker);

  Environment& env_;
  const farm::JobId job_;
  const BuiltProgram built_;
  const Build first_;  // the plan's
  Done done_;
  std::vector<Answer> answers_;
  std::set<std::string> tried_;  // workers that compiled it or were asked to
  std::string asked_;            // the one whose answer is awaited; empty: none
  int64_t deadline_ns_ = 0;      // of the answer
};

}  // namespace coordinator::service
