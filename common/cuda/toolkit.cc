#include "common/cuda/toolkit.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace common {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// The installation whose bin/nvcc is the first in $PATH; empty when there is none. Distributions
// put links to it among other programs.
std::filesystem::path nvcc_home() {
  std::string_view path = environment("PATH");
  while (!path.empty()) {
    std::string_view folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    std::error_code error;
    auto program = std::filesystem::canonical(std::filesystem::path(folder) / "nvcc", error);
    if (!error) return program.parent_path().parent_path();
  }
  return {};
}

}  // namespace

std::vector<std::string> cuda_library_names(const std::vector<std::string>& sonames) {
  std::vector<std::string> names = sonames;
  for (const std::filesystem::path& home :
       {std::filesystem::path(environment("CUDA_HOME")),
        std::filesystem::path(environment("CUDA_PATH")), nvcc_home()}) {
    if (home.empty()) continue;
    for (const char* folder : {"lib64", "lib"}) {
      for (const std::string& soname : sonames) names.push_back(home / folder / soname);
    }
  }
  return names;
}

}  // namespace common
