// A small disk that can be filled to the last byte: where the farm keeps its state.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"

namespace chaos {

class SmallDisk {
 public:
  // Over an empty directory.
  static common::Result<std::unique_ptr<SmallDisk>> mount(const std::string& directory);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  // Until nothing more fits.
  common::Status fill();
  void clear();

 private:
  explicit SmallDisk(std::string directory)
      : directory_(std::move(directory)), ballast_(directory_ + "/ballast") {}
  std::string directory_, ballast_;
};

}  // namespace chaos
