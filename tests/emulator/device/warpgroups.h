// What warpgroups of an emulated multiprocessor do beside their threads' code: products of matrices
// in shared memory that begin at once and end at the wait for them. Written from the PTX ISA
// ("Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions", "Async proxy"), not from
// the code that uses it, and stricter than the hardware:
// - products read what threads wrote and then fenced; what was not fenced is NaN;
// - matrices that change between a product's begin and its end, and copies to them meanwhile, are
//   errors;
// - sums are NaN from a product's begin to the wait for it, and must not have been touched then;
// - sums that were accessible need a fence before the next product;
// - all threads of a warpgroup begin the same products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/prelude/prelude_abi.h"

namespace emulator {

// Of one block at a time, whose dynamic shared memory is `shared`. Functions return what is wrong;
// empty: nothing.
class Warpgroups {
 public:
  // Begins a block.
  void reset(std::byte* shared, size_t bytes, unsigned threads);

  std::string begin_product(unsigned thread, const lf_emu::Product& product, float* sums);
  void fence_products(unsigned thread);
  void commit_products(unsigned thread);
  std::string wait_products(unsigned thread, unsigned groups_left);
  // A thread's write to shared memory, which is there already; `under_way`: it may happen any time
  // from now.
  void note_write(unsigned thread, const std::byte* at, size_t bytes);
  std::string check_write(const std::byte* at, size_t bytes) const;
  // The copy engine's write, which products see as threads do.
  void note_copied(const std::byte* at, size_t bytes);
  // What the thread wrote becomes visible to products.
  void fence_async(unsigned thread);
  // The thread ends.
  std::string end_thread(unsigned thread);

 private:
  static constexpr unsigned kThreads = 128, kRows = 64, kDepth = 16;
  // A product that a warpgroup's threads begin one after another: all read what the first read.
  struct Begun {
    lf_emu::Product product{};
    // [row][k], [column][k]; `left` is filled by each warp where it is in registers.
    std::vector<float> left, right;
    std::vector<size_t> places;  // of all elements, in shared memory
    size_t first = 0, last = 0;  // byte
    unsigned ended = 0;          // threads that have waited for it
  };
  struct Warpgroup {
    uint64_t dropped = 0;  // products that all threads have waited for
    std::deque<Begun> begun;
  };
  struct Sums {
    std::vector<float> values;
    unsigned under_way = 0;
  };
  struct Pending {
    uint64_t number = 0;
    float* sums = nullptr;
  };
  struct ThreadState {
    bool is_fenced = false;
    uint64_t begun = 0;
    std::vector<std::vector<Pending>> groups;
    std::vector<Pending> open;
    std::map<float*, Sums> sums;
    std::vector<std::pair<size_t, size_t>> unfenced;  // place and size
  };

  void wake();
  std::string read(Begun& begun) const;
  static void take_registers(unsigned thread, const lf_emu::Product& product, Begun& begun);
  std::string place(uint64_t descriptor, bool across, unsigned own, unsigned k,
                    size_t* result) const;
  std::string add(unsigned thread, const Pending& pending);
  bool is_changed(const Begun& begun) const;

  std::byte* shared_ = nullptr;
  size_t bytes_ = 0;
  bool is_used_ = false;         // in this block
  std::vector<std::byte> seen_;  // shared memory as products see it
  std::vector<ThreadState> threads_;
  std::vector<Warpgroup> groups_;
};

}  // namespace emulator
