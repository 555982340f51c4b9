// Bounds on what is read from an exported program, in one place: whatever an archive says of
// itself, reading it takes no more than this. What is beyond them is refused whole, with a message
// that names the bound.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clients {

// Bounds of memory. The defaults are far above every model that is known; whoever reads archives of
// strangers on a small machine lowers them.
struct Pt2Limits {
  size_t zip_entries_max = size_t{1} << 20;     // full-size models have a few thousand
  size_t inflated_bytes_max = size_t{2} << 30;  // in all; torch stores weights, only text inflates
  size_t graph_bytes_max = size_t{1} << 30;     // of one JSON document or pickle
  size_t pickle_objects_max = size_t{1} << 20;  // each takes some 200 bytes
  size_t pickle_depth_max = 256;                // marks that nest
};

// Deflate cannot expand by more than 1032 times; an entry that claims more lies about its size.
inline constexpr size_t kMaxDeflateRatio = 1032;
// A file of the archive that holds one word, such as its version.
inline constexpr size_t kMaxMarkerBytes = 4096;
// Arguments of a call in a pickle.
inline constexpr size_t kMaxPickleArguments = 16;
// A size expression: its text, how deep it nests, constant powers. Multiplied out it stays below
// common::kExprSizeMax.
inline constexpr size_t kMaxSympyBytes = size_t{64} << 10;
inline constexpr int kMaxSympyDepth = 64;
inline constexpr int64_t kMaxSympyPower = 16;

}  // namespace clients
