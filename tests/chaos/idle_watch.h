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
  // `files`: where each coordinator writes its HTTP address; one of them serves at a time.
  explicit IdleWatch(std::vector<std::string> files) : files_(std::move(files)) {}

  // To be called often; asks twice a second. What is wrong, or an empty text.
  std::string tend(int64_t now_ns);
  // The longest that a worker had nothing while tasks waited, in ns.
  int64_t longest_ns() const { return longest_ns_; }
  // Those who answered, one after the other.
  int leaders() const { return leaders_; }

 private:
  std::string ask();
  std::vector<std::string> files_;
  int64_t next_ns_ = 0;
  int64_t longest_ns_ = 0;
  int leaders_ = 0;
  std::string leader_;
  std::map<std::string, int64_t> idle_since_ns_;  // by worker
};

}  // namespace chaos
