#include "common/schedule/kernels/looped_kernel.h"

#include <utility>

#include "common/base/cat.h"
#include "common/ir/nest/lower_structure.h"
#include "common/ir/tiled/fourier_loops.h"
#include "common/ir/tiled/scan_loops.h"
#include "common/ir/tiled/sort_loops.h"
#include "common/schedule/kernels/fourier_tiling.h"
#include "common/schedule/kernels/ordered_tiling.h"
#include "common/schedule/kernels/tiled_product.h"

namespace common {
namespace {

Result<LoopedNodes> sort_loops(const Kernel& kernel) {
  LFARM_ASSIGN_OR_RETURN(const auto t, from_tiling<SortTiling>(*kernel.tiling));
  if (t.places < 1 || t.threads < 1) return invalid_input("a sort without places or threads");
  const SortBlocks blocks = t.blocks();
  SortLoops loops;
  loops.packed = t.packed;
  switch (blocks.method) {
    case SortMethod::kRank:
      loops.method = RankLoops{blocks.places, blocks.parts()};
      break;
    case SortMethod::kNetwork:
    case SortMethod::kMemory:
      loops.method =
          NetworkLoops{blocks.threads * blocks.each(), blocks.method == SortMethod::kNetwork};
      break;
    case SortMethod::kCount:
      loops.method = CountLoops{blocks.threads, blocks.places};
      break;
    default:
      return invalid_input("a sort by an unknown method");
  }
  Graph body = lower_structure(kernel.body, Kept::kNone);
  const NodeId sort = body.outputs[0].node;
  if (body.node(sort).op != Op::kSort) return invalid_input("a sort's tiling of another kernel");
  return looped_sort(std::move(body), sort, loops);
}

Result<LoopedNodes> scan_loops(const Kernel& kernel) {
  LFARM_ASSIGN_OR_RETURN(const auto t, from_tiling<ScanTiling>(*kernel.tiling));
  if (t.threads < 1) return invalid_input("a scan without threads");
  Graph body = lower_structure(kernel.body, Kept::kNone);
  const NodeId scan = body.outputs[0].node;
  if (body.node(scan).op != Op::kScan) return invalid_input("a scan's tiling of another kernel");
  return looped_scan(std::move(body), scan, {t.threads});
}

Result<LoopedNodes> fourier_loops(const Kernel& kernel) {
  LFARM_ASSIGN_OR_RETURN(const auto t, from_tiling<FourierTiling>(*kernel.tiling));
  Graph body = lower_structure(kernel.body, Kept::kTransforms);
  const auto form = fourier_form(body);
  if (!form) return invalid_input("a transform's tiling of another kernel");
  const bool is_halved = fourier_row(body, *form).is_halved();
  return looped_fourier(std::move(body), *form, {t.rows, t.radices(), is_halved});
}

}  // namespace

Result<LoopedNodes> looped_kernel(const Kernel& kernel, const NestMachine& machine) {
  if (!kernel.tiling) return unsupported("the kernel has no tiling");
  if (kernel.tiling->form == SortTiling::kForm) return sort_loops(kernel);
  if (kernel.tiling->form == ScanTiling::kForm) return scan_loops(kernel);
  if (kernel.tiling->form == FourierTiling::kForm) return fourier_loops(kernel);
  if (const auto tiled = tiled_product(kernel, machine)) return tiled->looped();
  return invalid_input(cat("no loops are known of the tiling '", print(*kernel.tiling), "'"));
}

}  // namespace common
