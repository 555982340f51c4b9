// A small disk that can be filled to the last byte: where the farm keeps its state.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"

namespace chaos {

// Unmounted with the mount namespace of the process (leave_the_machine()).
class SmallDisk {
 public:
  // Over an empty directory.
  static common::Result<std::unique_ptr<SmallDisk>> mount(const std::string& directory);
  // Until nothing more fits.
  common::Status fill();
  void clear();

 private:
  explicit SmallDisk(std::string directory) : ballast_(std::move(directory) + "/ballast") {}
  std::string ballast_;
};

}  // namespace chaos
