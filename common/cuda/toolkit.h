// Where the libraries of a CUDA installation lie: the loader's own places first, then the toolkit.
#pragma once

#include <string>
#include <vector>

namespace common {

// What to hand to SharedLibrary::open(): `sonames` as they are, so that the loader's search path
// decides, then each of them in the folders of the toolkit that $CUDA_HOME or $CUDA_PATH names or
// whose nvcc is in $PATH.
std::vector<std::string> cuda_library_names(const std::vector<std::string>& sonames);

}  // namespace common
