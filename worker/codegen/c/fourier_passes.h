// The passes of a Fourier transform as C text: butterflies on vectors that hold the same point of
// several rows, so that the code is a scalar transform's whatever its length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace worker {

// Of N complex points: element m's real parts are vector 2 m of a buffer, its imaginary parts
// vector 2 m + 1.
struct FourierPasses {
  int64_t points = 1;
  std::vector<int64_t> radices;  // whose product are the points
  bool inverse = false;
  std::string type;          // of the elements: "float" or "double"
  int64_t lanes = 1;         // elements of a vector
  int64_t twiddle_step = 1;  // the table's twiddle k * twiddle_step is exp(s 2 pi i k / points)
};

// Statements that transform what is in `a`. With an odd number of radices the result is in `b`,
// otherwise in `a`. Both are pointers to elements, `twiddles` to the table.
std::string fourier_passes(const FourierPasses& passes, const std::string& a, const std::string& b);

// Statements that make the first `points` + 1 frequencies of a real signal of 2 * points, in `to`,
// of the transform in `from` of its even positions (as real parts) and odd ones.
std::string unpack_real(const FourierPasses& passes, const std::string& from,
                        const std::string& to);

// "static const T twiddles[] = {cos, sin, ...};" of s 2 pi k / count for all k < count.
std::string twiddle_table(int64_t count, bool inverse, const std::string& type);

}  // namespace worker
