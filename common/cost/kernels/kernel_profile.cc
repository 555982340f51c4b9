#include "common/cost/kernels/kernel_profile.h"

#include <algorithm>

#include "common/cost/kernels/kernel_walk.h"
#include "common/cost/kernels/kernel_work.h"
#include "common/ir/hlir/attention_form.h"
#include "common/ir/hlir/sizes.h"
#include "common/ir/llir/horizontal.h"

namespace common {
namespace {

// A launch of several parts does what they do, one after the other.
KernelProfile profile_parts(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  KernelProfile sum;
  const auto parts = horizontal_parts(kernel.body);
  for (size_t k = 0; k < parts.size(); ++k) {
    Kernel part = horizontal_part(kernel, parts, k);
    KernelProfile one = profile_kernel(part, symbols);
    for (double OperationCounts::*count :
         {&OperationCounts::simple_ops, &OperationCounts::row_ops, &OperationCounts::hard_ops,
          &OperationCounts::contraction_ops, &OperationCounts::random_reads,
          &OperationCounts::folded_reads, &OperationCounts::sort_steps,
          &OperationCounts::sort_turns, &OperationCounts::transform_steps,
          &OperationCounts::transform_products}) {
      sum.*count += one.*count;
    }
    sum.moved_bytes += one.moved_bytes;
    sum.longest_sum = std::max(sum.longest_sum, one.longest_sum);
    sum.row_sums += one.row_sums;
    sum.lane_blocks += one.lane_blocks;
    if (one.contraction.steps > 1) sum.contraction = one.contraction;
    sum.loops.insert(sum.loops.end(), one.loops.begin(), one.loops.end());
  }
  for (const auto& input : kernel.body.inputs) {
    sum.bytes += count_bytes(input.dtype, input.shape, symbols);
  }
  for (const auto& output : kernel.body.outputs) {
    const Node& node = kernel.body.node(output.node);
    sum.bytes += count_bytes(node.dtype, node.shape, symbols);
  }
  return sum;
}

}  // namespace

KernelProfile profile_kernel(const Kernel& kernel, const std::vector<int64_t>& symbols) {
  if (kernel.form == Template::kHorizontal) return profile_parts(kernel, symbols);
  bool is_loops = kernel.form == Template::kLoops;
  KernelProfile profile = walk_body(kernel.body, symbols, is_loops);
  note_transforms(kernel.body, symbols, profile);
  profile.longest_sum = longest_sum(kernel, symbols);
  if (kernel.form == Template::kTile) {
    profile.tile = tile_shape(kernel.body, symbols);
    // Loops compute two products that are no pair.
    const auto products = std::count_if(kernel.body.nodes.begin(), kernel.body.nodes.end(),
                                        [](const Node& node) { return node.op == Op::kContract; });
    if (products > 1 && !profile.tile) {
      profile.contraction.is_half = profile.contraction.is_copied = false;
    }
  }
  if (kernel.form != Template::kAttention) return profile;
  auto form = attention_form(kernel.body);
  double share = form ? visible_share(*form, symbols) : 1;
  if (form) profile.attention = attention_size(kernel, *form, symbols);
  profile.contraction_ops *= share;
  profile.hard_ops *= share;
  profile.simple_ops *= share;
  for (WalkedLoop& work : profile.loops) work.runs *= share;
  return profile;
}

}  // namespace common
