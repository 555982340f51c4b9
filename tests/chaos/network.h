// A second network beside the one of the farm, whose link can be cut: where the far worker and the
// far client live.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/process/subprocess.h"

namespace chaos {

// Gives this process a network and a view of file systems of its own, in which it may do what root
// may: nothing of what it sets up is seen outside, and all of it ends with the process. To be
// called before threads start. Says what the kernel refuses.
common::Status leave_the_machine();

// Two ends of a link, this process's and one that is only reached from inside.
class FarNetwork : public common::ChildSetup {
 public:
  static common::Result<std::unique_ptr<FarNetwork>> make();
  ~FarNetwork() override;
  FarNetwork(const FarNetwork&) = delete;
  FarNetwork& operator=(const FarNetwork&) = delete;

  // The address of this process's end.
  static std::string near_address() { return "10.213.0.1"; }
  // The process that keeps the far end.
  pid_t holder() const { return holder_.pid(); }
  common::Status cut();
  common::Status heal();
  // Moves a new child to the far end.
  common::SetupFailure enter() const override;

 private:
  FarNetwork(common::Subprocess holder, int fd) : holder_(std::move(holder)), fd_(fd) {}
  common::Subprocess holder_;  // keeps the namespace while it is set up
  int fd_;
};

}  // namespace chaos
