// The support code that kernels of every target include: the text of files in support/, without
// comments. It needs what the base of each language defines, see support/language.h.
#pragma once

#include <string_view>

namespace worker {

// Each returns the file of its name (cmake/support.cmake). A file's includes tell what is printed
// before it.
std::string_view c_support_number();
std::string_view c_support_basic_math();
std::string_view c_support_library_math();
std::string_view c_support_philox();

}  // namespace worker
