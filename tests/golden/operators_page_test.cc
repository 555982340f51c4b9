// docs/operators.md is made from the table of operators and from what the bundled operator cases
// translate to.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "clients/pt2/archive/archive.h"
#include "clients/pt2/operator_table.h"
#include "clients/pt2/translate.h"
#include "tests/golden/golden.h"

namespace {

namespace fs = std::filesystem;

const std::string kSource = LFARM_SOURCE_DIR;

std::string step_name(const common::Node& node) {
  using common::Op;
  switch (node.op) {
    case Op::kInput:
    case Op::kConstant:
      return "";
    case Op::kUnary:
      return std::string(common::unary_name(common::attr<common::UnaryAttr>(node).op));
    case Op::kBinary:
      return std::string(common::binary_name(common::attr<common::BinaryAttr>(node).op));
    case Op::kReduce:
      return "reduce " +
             std::string(common::reduce_name(common::attr<common::ReduceAttr>(node).op));
    case Op::kScan:
      return "scan " + std::string(common::scan_name(common::attr<common::ScanAttr>(node).op));
    case Op::kScatter:
      return "scatter " +
             std::string(common::scatter_name(common::attr<common::ScatterAttr>(node).mode));
    default:
      return std::string(common::op_name(node.op));
  }
}

// Which nodes a target becomes, from the cases that hold nothing but it.
std::map<std::string, std::set<std::string>> lowerings() {
  std::map<std::string, std::set<std::string>> out;
  for (const auto& entry : fs::directory_iterator(kSource + "/tests/fixtures/operators")) {
    auto program = clients::open_pt2((entry.path() / "model.pt2").string());
    if (!program.ok() || program->graph.nodes.size() != 1) continue;
    auto model = clients::translate(*program);
    if (!model.ok()) continue;
    std::string target = program->graph.nodes[0].target;
    target.erase(0, target.find("aten."));
    std::set<std::string>& steps = out[target.substr(0, target.rfind('.'))];
    for (const common::Node& node : model->graph.nodes) {
      std::string step = step_name(node);
      if (!step.empty()) steps.insert(step);
    }
  }
  return out;
}

std::string listed(const std::set<std::string>& steps) {
  constexpr size_t kShown = 8;
  std::string out;
  size_t shown = 0;
  for (const std::string& step : steps) {
    if (shown == kShown) return out + ", ...";
    out += (shown++ > 0 ? ", " : "") + step;
  }
  return out;
}

std::string page() {
  std::ostringstream out;
  out << "# Operators\n\n"
         "What the front end translates. A name stands for all overloads of an operator, its "
         "in-place form and its `out=` dtype rules; where only some overloads are taken, they are "
         "named. *Complex*: complex tensors have a form of their own (views and copies take them "
         "without). *Becomes*: the nodes of the graph that a typical call turns into; a dash where "
         "no bundled case holds the operator alone. The last family is refused, with a message "
         "that "
         "says what to change.\n\n"
         "Operators on lists (`aten._foreach_add`) are taken apart into the plain operators. Of "
         "the "
         "operators on graphs, wrappers, `cond`, `scan` of a constant length and `while_loop` over "
         "a "
         "counter are translated. Every core ATen operator is translated; `aten.nonzero` and other "
         "selections by masks where the program states how many elements they give.\n\n"
         "Ties of sorts that PyTorch calls unstable come out in the order of a stable sort; "
         "`lfarm check` takes any order of equal elements there.\n\n"
         "Made by `LFARM_UPDATE_GOLDEN=1 test_operators_page`.\n";
  auto becomes = lowerings();
  std::string_view family;
  for (const auto& entry : clients::operator_table().entries()) {
    if (entry.family != family) {
      family = entry.family;
      out << "\n## " << family << "\n\n| operator | complex | becomes |\n|---|---|---|\n";
    }
    std::string name(entry.name);
    auto found = becomes.find(name);
    std::string steps = found == becomes.end() ? "-" : listed(found->second);
    if (family == "Refused") steps = "refused";
    out << "| `" << name << "` | " << (entry.complex ? "yes" : "") << " | "
        << (steps.empty() ? "the operand itself" : steps) << " |\n";
  }
  out << "\n## Other names\n\n| operator | taken as |\n|---|---|\n";
  for (const clients::OperatorAlias& alias : clients::operator_aliases()) {
    out << "| `aten." << alias.name << "` | `aten." << alias.operator_name << "` |\n";
  }
  return out.str();
}

TEST(OperatorsPage, SaysWhatTheTableHolds) { golden::compare(page(), "docs/operators.md"); }

}  // namespace
