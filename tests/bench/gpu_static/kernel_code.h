// What a kernel's machine code says of its speed: widths, loads under way, and instructions by how
// often loops turn.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/cuda/cubin.h"
#include "common/cuda/sass.h"

namespace bench {

// Bytes that a thread moves, on average. What is empty is not known.
struct ThreadTraffic {
  double loads = 0;          // from device memory
  double longest_loads = 0;  // in the block that has most to load; at least `loads`
  // Of these, by the bytes of a load: 1, 2, 4, 8, 16.
  std::optional<std::array<double, 5>> loads_by_width, longest_loads_by_width;
  std::optional<double> stores, shared_loads;
  // Of its warpgroup the products, and of its block the boxes that the copy engine brings; the
  // clocks until a warpgroup can begin the product after one.
  std::optional<double> products, boxes;
  double box_bytes = 0;        // of one of them, as its block asks the second cache for it
  double boxes_under_way = 0;  // bytes of boxes that have not come yet, at most
  double product_clocks = 0;
};

// From the cubin of a generated kernel.
struct KernelCode {
  std::string name;
  uint32_t registers = 0;
  uint64_t local_bytes = 0;   // of a thread: spills, and arrays that are indexed at run time
  uint64_t shared_bytes = 0;  // of a block
  // Of the accesses of device memory that move most: bytes of a lane at once; 0: there are none.
  // Where the copy engine brings boxes, those of its chunks.
  int load_bytes = 0, store_bytes = 0;
  // Of a thread, in the main loop: the one where warpgroups multiply, else the one that loads most.
  int64_t in_flight_bytes = 0;
  // That a thread executes; where a warp of its own asks for boxes those of the others, and its
  // own.
  double instructions = 0, copier_instructions = 0;
  double warp_clocks = 0;          // that a warp takes where nothing else runs
  double longest_warp_clocks = 0;  // in the block that has most to load
  double tensor_instructions = 0;  // of those, products of tensor cores
  bool has_warpgroups = false;     // which multiply together
  double epilogue_share = 0;       // of the instructions, those after the main loop
  int64_t barriers_step = 0;       // in the main loop
  int64_t divisions_in_loops = 0;  // of 64-bit integers, and other calls of functions
};

// Of code that is reached without calls. A loop that loads turns as often as makes its threads load
// what they must of its widest loads, all such loops alike; one that only reads shared memory,
// stores, asks for boxes or multiplies by warpgroups likewise; of other loops nothing is known, and
// they are taken to turn four times.
KernelCode kernel_code(const common::SassKernel& kernel, const common::CubinKernel& facts,
                       const ThreadTraffic& traffic);

}  // namespace bench
