// The support code of C kernels: the text of files in support/, without comments.
#pragma once

#include <string_view>

namespace worker {

// Each returns the file of its name (cmake/support.cmake). A file's includes tell what is printed
// before it.
std::string_view cpu_support_base();
std::string_view cpu_support_float_math();
std::string_view cpu_support_trigonometry();
std::string_view cpu_support_sort();
std::string_view cpu_support_transpose();
std::string_view cpu_support_dots();
// For processors whose common::VectorUnit has no pairs.
std::string_view cpu_support_half_dots();
// For processors whose common::VectorUnit has pairs, and tiles.
std::string_view cpu_support_pairs();
std::string_view cpu_support_tiles();

}  // namespace worker
