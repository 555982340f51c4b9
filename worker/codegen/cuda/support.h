// The support code of CUDA kernels: the text of files in support/, without comments.
#pragma once

#include <string_view>

namespace worker {

// Each returns the file of its name (cmake/support.cmake). A file's includes tell what is printed
// before it.
std::string_view cuda_support_base();
std::string_view cuda_support_float_math();
std::string_view cuda_support_overlap();
std::string_view cuda_support_teams();
std::string_view cuda_support_blocks();
std::string_view cuda_support_sort();
std::string_view cuda_support_vectors();
std::string_view cuda_support_probabilities();
std::string_view cuda_support_halves();
std::string_view cuda_support_mma();
// For GPUs of compute capability 9.0a.
std::string_view cuda_support_wgmma();
std::string_view cuda_support_tma();

}  // namespace worker
