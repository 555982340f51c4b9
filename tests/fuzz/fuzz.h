// What a fuzzer is made of. The same file runs in two ways: linked with replay_main.cc it is a test
// that tries a fixed sequence of damaged inputs; under the preset `fuzz` it is a libFuzzer program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// One input. Returns 0; aborts when a property does not hold.
// libFuzzer prescribes the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fuzz {

// Well-formed inputs to damage.
std::vector<std::string> seeds();

}  // namespace fuzz
