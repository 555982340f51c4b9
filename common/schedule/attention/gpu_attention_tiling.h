// How a GPU computes an attention: in which of the forms beside this file, and by which blocks.
#pragma once

#include <optional>

#include "common/ir/llir/llir.h"

namespace common {

// `body` is as it stands in a kernel, with its structure. What the schedule asks for, else what is
// expected to take least on a GPU with `processors` multiprocessors. Forms of warpgroups only where
// these multiply. Empty unless the body holds one attention (see attention_form.h) whose rows,
// keys and values fit into registers or shared memory.
std::optional<Tiling> choose_gpu_attention_tiling(const Graph& body, const Schedule& schedule,
                                                  int64_t processors, bool has_warpgroups);

}  // namespace common
