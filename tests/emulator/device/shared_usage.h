// How much static shared memory a kernel declares, read from the object it was compiled to: a GPU's
// compiler refuses too much, and its driver tells.
#pragma once

#include <string>
#include <string_view>

namespace emulator {

// Bytes of the arrays that the body of `kernel` declares in `object`, an ELF file with its symbols.
// Arrays of functions that it calls are not among them: what calls what is not in the file.
size_t static_shared_bytes(std::string_view object, const std::string& kernel);

}  // namespace emulator
