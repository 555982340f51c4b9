// What can be said of a kernel's work without its loops: sizes of contractions, steps of sorts,
// keys that attention sees. The walk of its loops (kernel_walk.h) asks here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cost/kernels/kernel_profile.h"
#include "common/ir/hlir/attention_form.h"

namespace common {

// How many axes all outputs begin with; 0 where all are of one shape.
size_t shared_prefix(const Graph& body);

// By node: how many reductions one after the other it waits for, with its own.
std::vector<int> reduction_depths(const Graph& body);

// Operations that compute an element of the node; the cast of what is read is none.
double computed_operations(const Graph& body, NodeId id);
// float32 made of a half type that lies in an input.
bool is_widened_input(const Graph& body, NodeId id);

// `node` is a kContract of the body; symbols[k] is the value of s<k>, here and below.
ContractionSize contraction_size(const Graph& body, const Node& node,
                                 const std::vector<int64_t>& symbols);

AttentionSize attention_size(const Kernel& kernel, const AttentionForm& form,
                             const std::vector<int64_t>& symbols);

// `node` is a kSort of the body.
SortSize sort_size(const Graph& body, const Node& node, const std::vector<int64_t>& symbols);

// Of the same sort on a processor. See KernelProfile.
struct SortWork {
  double steps = 0;
  double turns = 0;
};
SortWork sort_work(const Graph& body, const Node& node, const SortSize& size);

// Elements of the longest reduction that a thread of a GPU adds up by itself. Where a sort or a
// scan computes one for a whole line, such as the sums of a softmax, the line's threads share it.
double longest_sum(const Kernel& kernel, const std::vector<int64_t>& symbols);

// Adds the work of all transforms in the body.
void note_transforms(const Graph& body, const std::vector<int64_t>& symbols,
                     KernelProfile& profile);

// The expression where its loop indices are these.
Expr at_indices(const Expr& e, const std::vector<Expr>& indices);

// In the measure of a generator that compares its plans: the simple operations of a vector's worth
// of steps.
double effort(const KernelProfile& profile);

// The share of keys that positions do not hide, by a few rows.
double visible_share(const AttentionForm& form, const std::vector<int64_t>& symbols);

}  // namespace common
