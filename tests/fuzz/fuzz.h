// What a fuzzer is made of. The same file runs in two ways: linked with replay_main.cc it is a test
// that tries a fixed sequence of damaged inputs; under the preset `fuzz` it is a libFuzzer program.
// Either way entry.cc holds each input to bounds of heap and time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace fuzz {

// Well-formed inputs to damage.
std::vector<std::string> seeds();

// What one input may have on the heap at a time: a hundred times what honest inputs of these sizes
// take, and far from what a hostile count could ask for.
size_t heap_bytes_max();

// One input. Aborts when a property does not hold.
void one_input(common::ByteView bytes);

// Inputs of earlier runs that reached new code, or that once broke something, kept in one file:
// tests/fixtures/fuzz/NAME.corpus. Each is four bytes of length, lowest first, and its content.
std::string pack(const std::vector<std::string>& inputs);
std::vector<std::string> unpack(const std::string& packed);

}  // namespace fuzz
