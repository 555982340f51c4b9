// What a unit of each kind of work takes on a kind of device, in nanoseconds.
#pragma once

#include <algorithm>
#include <string_view>

#include "common/cost/gpu_machine.h"
#include "common/cost/vector_terms.h"
#include "common/plan/plan.h"

namespace common {

// Of products by register tiles.
struct TileTerms {
  // A tile of rows by vectors, one step of the sum: multiply-adds of the tile's vectors, or what
  // they read, whichever takes longer; times `spill` when the tile is more than the registers hold.
  double multiply_ns;
  double load_ns;
  double spill;
  double registers;
  double pack_row_ns;     // an element of the rows into its place, again for each panel of columns,
  double pack_column_ns;  // and of the columns
  double pack_border = 1;  // times a row's, where a condition says whether there is an element
  double batch_ns;
  double short_steps = 1;  // of the sum that a multiply-add of bfloat16 takes

  double step_ns(double rows, double vectors) const {
    double step = std::max(rows * vectors * multiply_ns, (rows + vectors) * load_ns);
    return rows * vectors > registers ? step * spill : step;
  }
};

struct LaunchTerms {
  double kernel_ns;   // a generated kernel,
  double tile_ns;     // one that packs its operands,
  double library_ns;  // and a library's
};

struct MemoryTerms {
  double near_byte_ns;  // while all that a kernel touches stays in a cache of near_bytes
  double far_byte_ns;
  double near_bytes;

  double traffic_ns(double bytes) const {
    double near = std::min(bytes, near_bytes);
    return near * near_byte_ns + (bytes - near) * far_byte_ns;
  }
};

// Of operations whose loops are not looked at.
struct OperationTerms {
  double simple_ns;
  double row_ns;
  double hard_ns;
  double random_ns;
  double folded_ns;
  double sort_step_ns;
  double sort_turn_ns;
  double transform_ns;  // a point of a Fourier transform and a bit of its length
};

// Of multiply-adds, by what computes them.
struct ProductTerms {
  double in_place_ns;
  double attention_ns;
  double library_ns;
  double library_pack_ns = 0;  // and of an element of the matrix, which a library packs in each run
};

// What a whole run takes beside its kernels.
struct HostTerms {
  double synchronise_ns;  // the host waits for the device once
  double output_byte_ns;  // an output on its way to the host
};

struct DeviceTerms {
  Machine machine;
  const GpuMachine* gpu;  // null: a processor; else only launches and the host's are said below
  LaunchTerms launch;
  MemoryTerms memory;
  OperationTerms operations;
  ProductTerms products;
  HostTerms host;
  VectorTerms vector;
  TileTerms tile;
};
// Those of the target's kind: a typical CPU core, or the GPU of the machine class
// (common/runtime/machine_class.h), a typical one where that is empty. Valid until the process
// ends.
const DeviceTerms& device_terms(const Target& target, std::string_view machine_class = {});

}  // namespace common
