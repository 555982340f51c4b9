// Looks at the farm from outside, as its page does: a worker that has nothing while tasks wait is a
// farm that somebody has to nurse.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace chaos {

class IdleWatch {
 public:
  // `files`: where each coordinator writes its HTTP address. Those that serve answer: one at a
  // time, or with shards all.
  explicit IdleWatch(std::vector<std::string> files) : files_(std::move(files)) {}

  // To be called often; asks once a second. What is wrong, or an empty text.
  std::string tend(int64_t now_ns);
  // The longest that a worker had nothing while tasks waited, in ns.
  int64_t longest_ns() const { return longest_ns_; }
  // The most workers that were there at a time, and the most tasks that waited.
  size_t workers_max() const { return workers_max_; }
  int64_t waiting_max() const { return waiting_max_; }
  // Sets of those who answered, one after the other.
  int changes() const { return changes_; }

 private:
  struct Worker {
    int64_t tasks = 0;        // of all coordinators
    int64_t waiting = 0;      // for its target, at coordinators that know it
    std::string coordinator;  // one of these
  };
  // Adds what a coordinator says. False where it does not answer.
  bool ask(const std::string& file, std::map<std::string, Worker>& workers);

  std::vector<std::string> files_;
  int64_t next_ns_ = 0;
  int64_t longest_ns_ = 0;
  size_t workers_max_ = 0;
  int64_t waiting_max_ = 0;
  int changes_ = 0;
  std::string answering_;
  std::map<std::string, int64_t> idle_since_ns_;  // by worker
};

}  // namespace chaos
