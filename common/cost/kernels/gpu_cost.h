// What a kernel takes on a GPU, from its profile: the facts that common/cost turns into a time.
#pragma once

#include <span>

#include "common/cost/gpu_time.h"
#include "common/cost/kernels/kernel_profile.h"
#include "common/ir/llir/llir.h"
#include "common/schedule/product_blocks.h"

namespace common {

// Of one launch whose schedule is the default: accesses are wide, and the grid fills the device as
// far as there is work for its threads.
GpuKernelFacts gpu_facts(Template form, const KernelProfile& profile);

// What a schedule says of the blocks of an attention or a tile; 0 is the generator's choice.
struct BlockSchedule {
  int64_t block_keys = 0, block_rows = 0, block_columns = 0, splits = 0;
  TileUnits units = TileUnits::kQuicker;
  ProductWish product;
};

// Nanoseconds of one launch on that machine, over all the profiles, the launch itself included. An
// attention of few rows is predicted from its blocks (common/schedule/attention/decode_blocks.h)
// where its sizes are known, one of many rows likewise (common/schedule/attention/flash_blocks.h),
// and so is a tile on tensor cores (common/schedule/tile_blocks.h).
double gpu_predict_ns(Template form, std::span<const WeightedProfile> profiles,
                      const GpuMachine& machine, const BlockSchedule& schedule = {});

}  // namespace common
