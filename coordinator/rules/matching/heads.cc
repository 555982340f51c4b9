#include "coordinator/rules/matching/heads.h"

#include "common/base/cat.h"
#include "common/ir/hlir/text.h"

namespace coordinator {

std::string_view lowering_name(Lowering lowering) {
  switch (lowering) {
    case Lowering::kInPlace:
      return "in_place";
    case Lowering::kTile:
      return "tile";
    case Lowering::kGemm:
      return "gemm";
    case Lowering::kAttention:
      return "attention";
    case Lowering::kGrouped:
      return "grouped";
    case Lowering::kWinograd:
      return "winograd";
    case Lowering::kCopy:
      return "copy";
    case Lowering::kAbstract:
      return "abstract";
  }
  return "unknown";
}

Head HeadTable::intern(const common::Node& node, Lowering lowering) {
  std::string text = common::cat(common::describe(node), " @", lowering_name(lowering));
  auto [it, is_new] = by_text_.emplace(text, static_cast<Head>(entries_.size()));
  if (is_new) {
    common::Node bare = node;
    bare.operands.clear();
    std::string name = text.substr(0, text.find(' '));
    bool lowered = lowering == Lowering::kTile || lowering == Lowering::kGemm ||
                   lowering == Lowering::kGrouped || lowering == Lowering::kWinograd ||
                   lowering == Lowering::kCopy;
    uint32_t family = family_named(lowered ? name + "@lowered" : name);
    entries_.push_back({std::move(bare), lowering, family, std::move(text)});
  }
  return it->second;
}

uint32_t HeadTable::family_named(std::string_view name) {
  auto it = families_.find(name);
  if (it == families_.end()) {
    it = families_.emplace(std::string(name), static_cast<uint32_t>(families_.size())).first;
  }
  return it->second;
}

std::string HeadTable::name(Head head) const { return entries_[head].text; }

}  // namespace coordinator
