// E-graph heads for IR nodes: an operation with its attributes, type and lowering is one number.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/ir/hlir/graph.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

// How a structured node is to be computed. A rule adds lowered twins of a node to its class, and
// choosing among them is choosing how it runs.
enum class Lowering : uint8_t {
  kInPlace,  // inside whatever kernel needs it
  kTile,     // kContract: a generated, packed and register-tiled kernel
  kGemm,     // kContract: a library call on stored operands
  // kContract: the product of one kernel's attention, or its scores; elsewhere like kTile.
  kAttention,
  // kContract with an order of rows: a generated kernel that reads each group's matrix once for a
  // block of rows; on GPUs.
  kGrouped,
  // kContract with windows of images: products of tiles by minimal filters (winograd_form.h); on
  // processors.
  kWinograd,
  kCopy,     // kView: stored in the order of its own elements
  kAbstract  // not computable as it is; some lowering is chosen instead
};
std::string_view lowering_name(Lowering lowering);

// Interns heads; numbers are dense and given in the order of first use.
class HeadTable {
 public:
  // `node.operands` is ignored.
  Head intern(const common::Node& node, Lowering lowering = Lowering::kInPlace);
  // Valid as long as the table; its operands are empty.
  const common::Node& node(Head head) const { return entries_[head].node; }
  Lowering lowering(Head head) const { return entries_[head].lowering; }
  // Heads that differ in type or attributes only are of one family, named like the operation:
  // "view", "binary.add", "reduce.sum". Lowered twins are not of it: rules need to see one of them.
  uint32_t family(Head head) const { return entries_[head].family; }
  uint32_t family_named(std::string_view name);
  std::string name(Head head) const;

 private:
  struct Entry {
    common::Node node;
    Lowering lowering;
    uint32_t family;
    std::string text;
  };
  std::deque<Entry> entries_;
  std::unordered_map<std::string, Head> by_text_;
  std::map<std::string, uint32_t, std::less<>> families_;
};

}  // namespace coordinator
