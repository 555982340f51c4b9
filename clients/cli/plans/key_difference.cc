#include "clients/cli/plans/key_difference.h"

#include <algorithm>
#include <climits>

#include "common/base/cat.h"
#include "common/ir/hlir/dtype.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/ir/hlir/text.h"

namespace clients {

using common::cat;
using common::Expr;
using common::Graph;
using common::GraphInput;

namespace {

constexpr const char* kOtherModel = "the two compute something else";

std::string_view kind_name(common::InputKind kind) {
  switch (kind) {
    case common::InputKind::kUser:
      return "given at every call";
    case common::InputKind::kWeight:
      return "a weight";
    default:
      return "a state";
  }
}

std::string range_text(const common::SymbolRange& range) {
  std::string high = range.max == INT64_MAX ? "" : cat(range.max);
  return cat(range.min, "..", high);
}

std::string size_text(const Expr& size, const std::vector<common::SymbolRange>& symbols) {
  auto symbol = size.as_var();
  if (symbol && symbol->kind == common::Var::Kind::kSymbol) {
    return range_text(symbols[static_cast<size_t>(symbol->id)]);
  }
  return size.text();
}

// Compares field after field; the first that differs is kept, and equal ones are counted.
class Comparison {
 public:
  Comparison(const KeyParts& a, const KeyParts& b) : a_(a), b_(b) {
    field("target", a.key.target.name, b.key.target.name,
          "a plan is machine code, for the machine that it was made for") &&
        field("numerics policy", a.key.policy, b.key.policy,
              "relaxed plans take rewrites that strict ones may not") &&
        field("compiler epoch", a.key.epoch, b.key.epoch,
              "rules or code generator are others, and a farm searches anew") &&
        inputs() && outputs() && operations();
  }

  std::optional<KeyDifference> take() { return std::move(found_); }
  int equal_fields() const { return equal_; }

 private:
  // Whether the two are equal.
  bool field(const std::string& name, const std::string& a, const std::string& b, const char* why) {
    if (a == b) {
      ++equal_;
      return true;
    }
    found_ = KeyDifference{name, a, b, why};
    return false;
  }

  bool inputs() {
    if (!field("number of inputs", cat(a_.inputs.size()), cat(b_.inputs.size()), kOtherModel)) {
      return false;
    }
    for (size_t i = 0; i < a_.inputs.size(); ++i) {
      if (!input(i)) return false;
    }
    return true;
  }

  bool input(size_t i) {
    const GraphInput &a = a_.inputs[i], &b = b_.inputs[i];
    const std::string& given = a.name.empty() ? b.name : a.name;
    std::string name = given.empty() ? cat("input ", i) : cat("input ", i, " (", given, ")");
    bool same = field(name, std::string(kind_name(a.kind)), std::string(kind_name(b.kind)),
                      "weights are prepared once, other inputs change from call to call") &&
                field(cat("type of ", name), std::string(common::dtype_name(a.dtype)),
                      std::string(common::dtype_name(b.dtype)),
                      "kernels read the type that they were compiled for") &&
                field(cat("number of dims of ", name), cat(a.shape.size()), cat(b.shape.size()),
                      "kernels' loops follow the dims");
    for (size_t k = 0; same && k < a.shape.size(); ++k) {
      same = field(cat("dim ", k, " of ", name), size_text(a.shape[k], a_.symbols),
                   size_text(b.shape[k], b_.symbols),
                   "a plan is verified and measured for the sizes of its model alone") &&
             // Equal ranges may still be of one size or of two.
             field(cat("dim ", k, " of ", name), a.shape[k].text(), b.shape[k].text(),
                   "sizes that are always equal in one may differ in the other");
    }
    return same;
  }

  bool outputs() {
    if (!field("number of outputs", cat(a_.outputs.size()), cat(b_.outputs.size()),
               "a plan computes all outputs of its model and no other")) {
      return false;
    }
    for (size_t i = 0; i < a_.outputs.size(); ++i) {
      if (!field(cat("output ", i), output_text(a_.outputs[i]), output_text(b_.outputs[i]),
                 "what is returned and what is written in place are different results")) {
        return false;
      }
    }
    return true;
  }

  static std::string output_text(const common::GraphOutput& output) {
    switch (output.kind) {
      case common::OutputKind::kUser:
        return "returned";
      case common::OutputKind::kMutate:
        return cat("written to input ", output.input);
      case common::OutputKind::kCheck:
        break;
    }
    return cat("check of indices ", output.wraps ? "that wrap " : "", "below ",
               output.limit.text());
  }

  bool operations() {
    if (a_.key.graph_hash == b_.key.graph_hash) return true;
    if (a_.graph && b_.graph) {
      const Graph &a = *a_.graph, &b = *b_.graph;
      for (size_t i = 0; i < std::min(a.nodes.size(), b.nodes.size()); ++i) {
        if (a.nodes[i] == b.nodes[i]) continue;
        if (!operation(i)) return false;
      }
      if (!field("number of operations", cat(a.nodes.size()), cat(b.nodes.size()), kOtherModel)) {
        return false;
      }
    }
    // Of a plan only the hash is known, and the same hash covers constants' values.
    return field("operations", cat("graph ", a_.key.graph_hash.short_hex()),
                 cat("graph ", b_.key.graph_hash.short_hex()),
                 "inputs and outputs agree, and what is computed between them does not");
  }

  bool operation(size_t i) {
    const common::Node &a = a_.graph->nodes[i], &b = b_.graph->nodes[i];
    std::string name = cat("operation ", i);
    return field(name, common::describe(a), common::describe(b), kOtherModel) &&
           field(cat("operands of ", name), operands_text(a), operands_text(b), kOtherModel);
  }

  static std::string operands_text(const common::Node& node) {
    std::string text;
    for (common::NodeId id : node.operands) text += cat(text.empty() ? "%" : " %", id);
    return text;
  }

  const KeyParts& a_;
  const KeyParts& b_;
  std::optional<KeyDifference> found_;
  int equal_ = 0;
};

}  // namespace

KeyParts parts_of(std::string name, common::PlanKey key, const Graph& graph) {
  KeyParts parts{std::move(name), std::move(key), {}, {}, {}, common::canonical(graph)};
  parts.symbols = parts.graph->symbols;
  parts.inputs = parts.graph->inputs;
  parts.outputs = parts.graph->outputs;
  // The canonical form keeps the inputs' order and drops their names.
  for (size_t i = 0; i < parts.inputs.size(); ++i) parts.inputs[i].name = graph.inputs[i].name;
  return parts;
}

KeyParts parts_of(std::string name, const common::Plan& plan) {
  return {std::move(name), plan.key, plan.symbols, plan.inputs, plan.outputs, std::nullopt};
}

std::optional<KeyDifference> first_difference(const KeyParts& a, const KeyParts& b) {
  return Comparison(a, b).take();
}

int agreement(const KeyParts& a, const KeyParts& b) {
  Comparison comparison(a, b);
  return comparison.take() ? comparison.equal_fields() : INT_MAX;
}

}  // namespace clients
