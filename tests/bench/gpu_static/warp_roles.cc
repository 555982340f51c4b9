#include "tests/bench/gpu_static/warp_roles.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace bench {
namespace {

using common::SassClass;
using common::SassInstruction;
using common::SassKernel;
using common::SassLoop;

constexpr uint16_t kBranch = 0x147, kExit = 0x14d, kReturn = 0x150, kYield = 0x146;
constexpr uint16_t kWarpgroupProduct = 0x1f0;
constexpr uint16_t kBarrierTest = 0x1a7;  // of a barrier in shared memory

using Edges = std::vector<std::vector<size_t>>;

// Where the warp goes from each instruction.
Edges edges_of(const SassKernel& kernel) {
  Edges edges(kernel.code.size());
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    const bool leaves = x.opcode == kBranch || x.opcode == kExit || x.opcode == kReturn;
    if ((!leaves || x.is_conditional) && k + 1 < kernel.code.size()) edges[k].push_back(k + 1);
    if (x.target >= 0) edges[k].push_back(static_cast<size_t>(x.target));
  }
  return edges;
}

Edges reversed(const Edges& edges) {
  Edges back(edges.size());
  for (size_t k = 0; k < edges.size(); ++k) {
    for (size_t to : edges[k]) back[to].push_back(k);
  }
  return back;
}

void reach(const Edges& edges, std::vector<size_t> from, std::vector<char>& reached) {
  while (!from.empty()) {
    const size_t k = from.back();
    from.pop_back();
    if (reached[k] != 0) continue;
    reached[k] = 1;
    from.insert(from.end(), edges[k].begin(), edges[k].end());
  }
}

// Instructions from which one of `marks` is reached, and those that are reached from one.
std::vector<char> path_of(const Edges& edges, const std::vector<size_t>& marks) {
  std::vector<char> before(edges.size(), 0), after(edges.size(), 0);
  reach(reversed(edges), marks, before);
  reach(edges, marks, after);
  for (size_t k = 0; k < edges.size(); ++k) before[k] |= after[k];
  return before;
}

bool tests_again(const SassKernel& kernel, const SassLoop& loop) {
  bool tests = false;
  for (size_t k = loop.first; k <= loop.last; ++k) {
    const uint16_t opcode = kernel.code[k].opcode;
    if (opcode != kBarrierTest && opcode != kBranch && opcode != kYield) return false;
    tests |= opcode == kBarrierTest;
  }
  return tests;
}

SassKernel part_of(const SassKernel& kernel, const std::vector<char>& path) {
  SassKernel part = kernel;
  for (size_t k = 0; k < part.code.size(); ++k) part.code[k].is_reached &= path[k] != 0;
  for (const SassLoop& loop : kernel.loops) {
    if (!tests_again(kernel, loop)) continue;
    for (size_t k = loop.first; k <= loop.last; ++k) part.code[k].is_reached = false;
    // The way back from there.
    const size_t next = loop.last + 1;
    if (next >= part.code.size() || kernel.code[next].opcode != kBranch) continue;
    if (!kernel.code[next].is_conditional) part.code[next].is_reached = false;
  }
  std::erase_if(part.loops, [&](const SassLoop& loop) { return !part.code[loop.last].is_reached; });
  return part;
}

}  // namespace

std::optional<WarpRoles> warp_roles(const SassKernel& kernel) {
  std::vector<size_t> products, boxes;
  for (size_t k = 0; k < kernel.code.size(); ++k) {
    const SassInstruction& x = kernel.code[k];
    if (x.is_reached && x.opcode == kWarpgroupProduct) products.push_back(k);
    if (x.is_reached && x.kind == SassClass::kBoxCopy) boxes.push_back(k);
  }
  if (products.empty() || boxes.empty()) return std::nullopt;
  const Edges edges = edges_of(kernel);
  const std::vector<char> multiplies = path_of(edges, products), copies = path_of(edges, boxes);
  auto is_in = [](const std::vector<char>& path) { return [&](size_t k) { return path[k] != 0; }; };
  if (std::any_of(boxes.begin(), boxes.end(), is_in(multiplies)) ||
      std::any_of(products.begin(), products.end(), is_in(copies))) {
    return std::nullopt;
  }
  return WarpRoles{part_of(kernel, multiplies), part_of(kernel, copies)};
}

}  // namespace bench
