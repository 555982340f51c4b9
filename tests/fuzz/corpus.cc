#include <cstdint>

#include "tests/fuzz/fuzz.h"

namespace fuzz {

std::string pack(const std::vector<std::string>& inputs) {
  std::string packed;
  for (const std::string& input : inputs) {
    for (int shift = 0; shift < 32; shift += 8) packed += static_cast<char>(input.size() >> shift);
    packed += input;
  }
  return packed;
}

std::vector<std::string> unpack(const std::string& packed) {
  std::vector<std::string> inputs;
  size_t at = 0;
  while (packed.size() - at >= 4) {
    size_t size = 0;
    for (int byte = 0; byte < 4; ++byte) {
      size |= size_t{static_cast<unsigned char>(packed[at++])} << (8 * byte);
    }
    inputs.push_back(packed.substr(at, size));
    at += inputs.back().size();
  }
  return inputs;
}

}  // namespace fuzz
