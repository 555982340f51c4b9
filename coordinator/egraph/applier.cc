#include "coordinator/egraph/applier.h"

#include <algorithm>

namespace coordinator {

bool Applier::apply(const CompiledRule& rule, const FlatArray<uint32_t>& words, uint64_t node_limit,
                    ApplyCounts& counts) {
  size_t stride = rule.match_words();
  size_t matches = words.size() / stride;
  uint64_t created_before = graph_.nodes_created();
  bool within = true;
  for (size_t begin = 0; begin < matches && within; begin += kBatch) {
    uint32_t count = static_cast<uint32_t>(std::min<size_t>(kBatch, matches - begin));
    uint32_t accepted = keep_accepted(rule, words.data() + begin * stride, count);
    counts.matches += count;
    counts.rejected += count - accepted;
    if (rule.rule.apply) {
      within = call(rule, accepted, node_limit, counts);
    } else if (graph_.node_count() + accepted * rule.build.size() <= node_limit) {
      build_batch(rule, accepted, counts);
    } else {
      within = build_singly(rule, accepted, node_limit, counts);
    }
  }
  counts.nodes_added += graph_.nodes_created() - created_before;
  return within;
}

const Match& Applier::view(const CompiledRule& rule, const uint32_t* words) {
  size_t classes = rule.names.classes.size();
  match_classes_.resize(classes);
  for (size_t i = 0; i < classes; ++i) match_classes_[i] = graph_.find(words[1 + i]);
  match_heads_.clear();
  for (size_t i = 0; i < rule.names.heads.size(); ++i) {
    match_heads_.push_back({words[1 + classes + 2 * i], words[2 + classes + 2 * i]});
  }
  match_ = {graph_.find(words[0]), match_classes_, match_heads_, &rule.names};
  return match_;
}

uint32_t Applier::keep_accepted(const CompiledRule& rule, const uint32_t* words, uint32_t count) {
  uint32_t accepted = 0;
  for (uint32_t i = 0; i < count; ++i, words += rule.match_words()) {
    if (!rule.rule.condition || rule.rule.condition(graph_, view(rule, words))) {
      accepted_[accepted++] = words;
    }
  }
  return accepted;
}

bool Applier::call(const CompiledRule& rule, uint32_t count, uint64_t node_limit,
                   ApplyCounts& counts) {
  for (uint32_t i = 0; i < count; ++i) {
    if (graph_.node_count() + most_added_ >= node_limit) return false;
    uint64_t created = graph_.nodes_created();
    uint64_t before = created + graph_.merges();
    const Match& match = view(rule, accepted_[i]);
    std::optional<ClassId> result = rule.rule.apply(graph_, match);
    if (result) graph_.merge(accepted_[i][0], *result);
    most_added_ = std::max(most_added_, graph_.nodes_created() - created);
    counts.applied += graph_.nodes_created() + graph_.merges() != before;
  }
  return true;
}

bool Applier::build_singly(const CompiledRule& rule, uint32_t count, uint64_t node_limit,
                           ApplyCounts& counts) {
  values_.resize(rule.build_registers);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t* words = accepted_[i];
    uint64_t before = graph_.nodes_created() + graph_.merges();
    for (size_t v = 0; v < rule.names.classes.size(); ++v) values_[v] = words[1 + v];
    for (const BuildStep& step : rule.build) {
      if (graph_.node_count() >= node_limit) return false;
      operands_.clear();
      for (uint32_t reg : step.operands) operands_.push_back(values_[reg]);
      values_[step.target] = graph_.add(head_of(rule, step, words), operands_);
    }
    graph_.merge(words[0], values_[rule.result_register]);
    counts.applied += graph_.nodes_created() + graph_.merges() != before;
  }
  return true;
}

void Applier::build_batch(const CompiledRule& rule, uint32_t count, ApplyCounts& counts) {
  if (count == 0) return;
  values_.resize(size_t{rule.build_registers} * kBatch);
  for (size_t v = 0; v < rule.names.classes.size(); ++v) {
    ClassId* column = values_.data() + v * kBatch;
    for (uint32_t i = 0; i < count; ++i) column[i] = accepted_[i][1 + v];
  }
  std::fill_n(changed_, count, false);
  for (const BuildStep& step : rule.build) build_step(rule, step, count);
  const ClassId* results = values_.data() + size_t{rule.result_register} * kBatch;
  for (uint32_t i = 0; i < count; ++i) {
    changed_[i] |= graph_.merge(accepted_[i][0], results[i]);
    counts.applied += changed_[i];
  }
}

void Applier::build_step(const CompiledRule& rule, const BuildStep& step, uint32_t count) {
  ClassId* target = values_.data() + size_t{step.target} * kBatch;
  auto operand = [&](size_t which, uint32_t i) {
    return graph_.find(values_[size_t{step.operands[which]} * kBatch + i]);
  };
  if (step.ground || step.operands.size() > 2) {
    uint32_t distinct = step.ground ? 1 : count;
    for (uint32_t i = 0; i < distinct; ++i) {
      operands_.clear();
      for (size_t which = 0; which < step.operands.size(); ++which) {
        operands_.push_back(operand(which, i));
      }
      uint64_t before = graph_.nodes_created();
      target[i] = graph_.add(head_of(rule, step, accepted_[i]), operands_);
      changed_[i] |= graph_.nodes_created() != before;
    }
    if (step.ground) std::fill_n(target, count, target[0]);
    return;
  }
  size_t arity = step.operands.size();
  for (uint32_t i = 0; i < count; ++i) {
    heads_[i] = head_of(rule, step, accepted_[i]);
    first_[i] = arity > 0 ? operand(0, i) : kNone;
    second_[i] = arity > 1 ? operand(1, i) : kNone;
    hashes_[i] = EGraph::hash_narrow(heads_[i], first_[i], second_[i]);
    __builtin_prefetch(&graph_.table_.slots[graph_.home(hashes_[i])]);
  }
  add_prepared(count, target);
}

void Applier::add_prepared(uint32_t count, ClassId* target) {
  for (uint32_t i = 0; i < count; ++i) {
    EGraph::Slot slot = graph_.table_.slots[graph_.home(hashes_[i])];
    if (slot.node != kNone) {
      __builtin_prefetch(&graph_.nodes_[slot.node]);
    } else {  // will be inserted: its children get a parent
      if (first_[i] != kNone) __builtin_prefetch(&graph_.classes_[first_[i]], 1);
      if (second_[i] != kNone) __builtin_prefetch(&graph_.classes_[second_[i]], 1);
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t before = graph_.nodes_created();
    target[i] = graph_.add_narrow(hashes_[i], heads_[i], first_[i], second_[i]);
    changed_[i] |= graph_.nodes_created() != before;
  }
}

}  // namespace coordinator
