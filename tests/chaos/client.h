// A user of the farm: submits one model after another and, whatever happens to the farm or to the
// command, tries again until there is a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/process/subprocess.h"

namespace chaos {

struct Plan {
  std::string graph, id;  // hexadecimal
};

class Client {
 public:
  // `arguments`: how lfarm reaches the farm. `folder` exists and is this client's own. `where` may
  // be null and outlives this.
  Client(std::string name, std::vector<std::string> arguments, std::string folder,
         const common::ChildSetup* where);

  const std::string& name() const { return name_; }
  // The case that is being submitted; empty when the client is free.
  const std::string& current() const { return case_; }
  void submit(const std::string& case_folder) { case_ = case_folder; }
  // Starts the command, or starts it again. To be called often. A plan when there is one: the
  // client is free again.
  std::optional<Plan> tend(int64_t now_ns);
  // What a user must never see; empty when there was nothing. Cleared by asking.
  std::string take_complaint() { return std::exchange(complaint_, ""); }
  void kill();  // SIGKILL, to the command that runs
  int attempts() const { return attempts_; }
  // What the command that failed last said.
  const std::string& last_words() const { return last_words_; }

 private:
  void start(int64_t now_ns);
  std::optional<Plan> on_end(const common::ExitStatus& status, int64_t now_ns);

  std::string name_;
  std::vector<std::string> arguments_;
  std::string folder_;
  const common::ChildSetup* where_;
  std::string case_, complaint_, last_words_;
  std::optional<common::Subprocess> process_;
  bool killed_ = false;
  int attempts_ = 0;
  int64_t retry_ns_ = 0;
};

// The text after "NAME": in a JSON object on one line, without quotes.
std::string json_field(const std::string& json, const std::string& name);

}  // namespace chaos
