// Cases in a process of their own, so that one that crashes or hangs takes no other along.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/access/farm_options.h"
#include "clients/cli/models/case.h"
#include "common/base/result.h"
#include "common/process/subprocess.h"

namespace clients {

// How cases are run.
struct CaseOptions {
  FarmOptions farm;
  BudgetOptions budget;
  bool reference = false;  // the interpreter instead of compiled plans
  bool measure = false;    // for records
};

// What a child process writes of a case, one line.
std::string encode_case_result(const CaseResult& result);

// Runs cases one after another in child processes; a child that dies or takes too long fails its
// case and is replaced.
class CaseRunner {
 public:
  // `farm`: where the children find plans; empty with --reference.
  CaseRunner(CaseOptions options, std::string farm, double timeout_s)
      : options_(std::move(options)), farm_(std::move(farm)), timeout_s_(timeout_s) {}
  ~CaseRunner();
  CaseRunner(const CaseRunner&) = delete;
  CaseRunner& operator=(const CaseRunner&) = delete;

  // Calls `on_result` for each folder in order, and `on_wait` several times a second; its error
  // ends the run.
  common::Status run(const std::vector<std::string>& folders,
                     const std::function<void(const CaseResult&)>& on_result,
                     const std::function<common::Status()>& on_wait);

 private:
  common::Status start_child(const std::vector<std::string>& folders, size_t first);
  // One line of the child's; empty while there is none. At its end `*ended` is set.
  std::optional<std::string> read_line(bool* ended);
  CaseResult failed(const std::string& folder, const std::string& how);
  std::string child_words() const;
  void close_child();

  CaseOptions options_;
  std::string farm_;
  double timeout_s_;  // of one case
  std::optional<common::Subprocess> child_;
  int output_ = -1;  // the child's standard output
  int words_ = -1;   // a file with its standard error
  std::string buffer_;
};

}  // namespace clients
