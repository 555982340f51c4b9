// Barriers in the shared memory of an emulated block, and the boxes of tensors whose bytes they
// count. Written from the PTX ISA ("Asynchronous Barrier", "cp.async.bulk.tensor"), not from the
// code that uses it, and stricter than the hardware:
// - boxes come at the latest moment, when a thread waits for a phase that lacks nothing else; from
//   the moment when they are asked for, their place has numbers that no test expects;
// - a barrier that was not fenced after its initialisation, that was stored over, or at which more
//   threads arrive than it counts is an error, and so are more bytes than a phase expects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/tensor_map.h"

namespace emulator {

// A box on its way to a place in a block's shared memory.
struct BoxCopy {
  EncodedMap map;
  int32_t at[EncodedMap::kRankMax] = {};
  int32_t pixel[3] = {};  // of windows: the place in each of them
  std::byte* to = nullptr;
  size_t bytes() const;
  // Calls `row` for each row of the box: its bytes, of which the elements beyond the tensor are
  // zeros, or null where all are; and how many of them are elements of the tensor.
  void visit(const std::function<void(std::byte* to, const std::byte* from, size_t first_bytes,
                                      size_t bytes)>& row) const;

 private:
  // From the place of a row of the box to the next row's.
  void advance(int64_t (&place)[EncodedMap::kRankMax]) const;
};
// What is wrong with a copy to there; empty: nothing.
std::string check(const BoxCopy& copy);

// Of one block at a time. Functions return what is wrong; empty: nothing.
class SharedBarriers {
 public:
  using Written = std::function<void(const std::byte* at, size_t bytes)>;
  // Begins a block, whose dynamic shared memory is `shared`. `written` is told of each row that
  // comes.
  void reset(std::byte* shared, size_t bytes, Written written);

  std::string init(void* barrier, unsigned arrivals);
  // Barriers that were initialised are there for other threads, blocks and the copy engine.
  void fence();
  std::string arrive(const void* barrier, unsigned expected_bytes);
  std::string copy(const void* barrier, const BoxCopy& copy);
  // Whether the phase of this parity has ended, or ends if this thread waits for it.
  std::string test(const void* barrier, unsigned parity, bool* has_ended);
  // Whether test() may find that it has.
  bool may_end(const void* barrier, unsigned parity) const;
  // Of boxes that were asked for and have not come.
  uint64_t bytes_under_way() const;

 private:
  struct Barrier {
    uint64_t word = 0;  // in its memory
    bool is_fenced = false;
    unsigned arrivals = 0, pending = 0;
    int64_t bytes = 0;  // expected and not there
    unsigned phase = 0;
    std::vector<BoxCopy> copies;
  };
  std::string find(const void* barrier, Barrier** found);
  std::string end_phase(Barrier& barrier);

  std::byte* shared_ = nullptr;
  size_t bytes_ = 0;
  Written written_;
  uint64_t made_ = 0;
  std::map<const void*, Barrier> barriers_;
};

}  // namespace emulator
