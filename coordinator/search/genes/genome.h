// A genome: what a candidate changes against the default, as a sparse set of genes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "common/base/hash64.h"
#include "coordinator/egraph/ids.h"

namespace coordinator {

enum class GeneKind : uint8_t {
  kChoice,     // which e-node stands for the class: a NodeId
  kStore,      // whether, and by which kernel, the class's value is stored: a StoreGene
  kParameter,  // schedule parameter `index` of the kernel rooted at the class: its value
};

struct GeneName {
  GeneKind kind{};
  ClassId cls = kNone;
  uint32_t index = 0;
  friend auto operator<=>(const GeneName&, const GeneName&) = default;
};

// The hash is the XOR of one hash per gene, so a mutation updates it in constant time and the order
// of mutations doesn't matter.
class Genome {
 public:
  std::optional<int64_t> get(const GeneName& name) const {
    auto it = genes_.find(name);
    return it == genes_.end() ? std::nullopt : std::optional(it->second);
  }
  void set(const GeneName& name, int64_t value) {
    erase(name);
    genes_[name] = value;
    toggle(name, value);
  }
  void erase(const GeneName& name) {
    auto it = genes_.find(name);
    if (it == genes_.end()) return;
    toggle(name, it->second);
    genes_.erase(it);
  }
  uint64_t hash() const { return structure_hash_ ^ parameter_hash_; }
  // Of the genes that decide which kernels there are, without their schedules.
  uint64_t structure_hash() const { return structure_hash_; }
  // Of the choices alone, which decide what is computed, if not how it is cut into kernels.
  uint64_t choice_hash() const { return choice_hash_; }
  size_t size() const { return genes_.size(); }
  const std::map<GeneName, int64_t>& genes() const { return genes_; }

 private:
  static uint64_t gene_hash(const GeneName& name, int64_t value) {
    uint64_t key =
        static_cast<uint64_t>(name.kind) << 56 ^ static_cast<uint64_t>(name.index) << 40 ^ name.cls;
    return common::combine64(common::mix64(key), static_cast<uint64_t>(value));
  }
  void toggle(const GeneName& name, int64_t value) {
    uint64_t hash = gene_hash(name, value);
    (name.kind == GeneKind::kParameter ? parameter_hash_ : structure_hash_) ^= hash;
    if (name.kind == GeneKind::kChoice) choice_hash_ ^= hash;
  }
  std::map<GeneName, int64_t> genes_;
  uint64_t structure_hash_ = 0;
  uint64_t parameter_hash_ = 0;
  uint64_t choice_hash_ = 0;
};

}  // namespace coordinator
