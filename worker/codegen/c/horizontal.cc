#include "worker/codegen/c/horizontal.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/ir/hlir/verify.h"
#include "common/ir/llir/horizontal.h"
#include "common/ir/nest/lower_structure.h"
#include "common/lowering/loops/cpu_loops.h"
#include "worker/codegen/c/entry_text.h"

namespace worker {

using common::cat;
using common::Expr;
using common::FunctionBody;
using common::Graph;
using common::Kernel;
using common::Result;

namespace {

// A part's code with pointers numbered by what it uses, and the launch's buffers that they are.
struct Part {
  Graph body;  // its inputs and outputs are those that it uses
  FunctionBody function;
  std::vector<size_t> buffers;
};

// Parts that differ in their buffers alone.
struct SharedFunction {
  std::string text;  // all but the name
  const Part* first = nullptr;
  std::vector<const Part*> parts;
};

Result<Part> emit_part(const Kernel& kernel, const std::vector<std::vector<size_t>>& outputs,
                       size_t number) {
  Kernel part = common::horizontal_part(kernel, outputs, number);
  if (part.form != common::Template::kLoops) {
    return common::unsupported(cat("part ", number, " of a launch is no loops"));
  }
  if (!part.nest) return common::invalid_input("a part of loops has no nest");
  Graph body = common::nest_body(part.body, *part.nest);
  LFARM_RETURN_IF_ERROR(common::verify(*part.nest, body));
  Part result;
  common::LoopsContext context;
  std::vector<int> uses = common::use_counts(body);
  result.body = body;
  result.body.inputs.clear();
  for (size_t id = 0; id < body.nodes.size(); ++id) {
    const common::Node& node = body.nodes[id];
    if (node.op != common::Op::kInput || uses[id] == 0) continue;
    auto position = static_cast<size_t>(common::attr<common::InputAttr>(node).position);
    context.stored[static_cast<common::NodeId>(id)] = {cat("in", result.buffers.size()),
                                                       node.shape};
    result.buffers.push_back(position);
    result.body.inputs.push_back(body.inputs[position]);
  }
  for (size_t output : outputs[number]) {
    result.buffers.push_back(kernel.body.inputs.size() + output);
  }
  LFARM_ASSIGN_OR_RETURN(result.function, common::lower_cpu_loops(body, *part.nest, context));
  return result;
}

std::vector<SharedFunction> shared_functions(const std::vector<Part>& parts) {
  std::vector<SharedFunction> functions;
  for (const Part& part : parts) {
    std::string text =
        cat(c_function_head("", "", part.body, part.function, false), part.function.text, "}\n");
    auto known = std::find_if(functions.begin(), functions.end(), [&](const SharedFunction& other) {
      return other.text == text && other.first->function.units == part.function.units;
    });
    if (known == functions.end()) {
      known = functions.insert(known, {std::move(text), &part, {}});
    }
    known->parts.push_back(&part);
  }
  return functions;
}

// The buffers of each part that calls the function.
std::string table_text(const std::string& name, const SharedFunction& function) {
  std::string rows;
  for (const Part* part : function.parts) {
    std::string row;
    for (size_t buffer : part->buffers) row += cat(row.empty() ? "" : ", ", buffer);
    rows += cat(rows.empty() ? "" : ", ", "{", row, "}");
  }
  return cat("static const unsigned short ", name, "_t[", function.parts.size(), "][",
             function.first->buffers.size(), "] = {", rows, "};\n");
}

// Each part takes what of [begin, end) are its own units.
std::string walk_text(const std::string& name, const SharedFunction& function,
                      common::CodeWriter& names) {
  size_t buffers = function.first->buffers.size();
  return cat("  {\n    const int64_t units = ", names.rare_text(function.first->function.units),
             ";\n    for (int part = 0; part < ", function.parts.size(),
             "; ++part, first += units) {\n"
             "      const int64_t from = begin > first ? begin - first : 0;\n"
             "      const int64_t to = end - first < units ? end - first : units;\n"
             "      if (from >= to) continue;\n      void* own[",
             buffers, "];\n      for (int k = 0; k < ", buffers, "; ++k) own[k] = buffers[", name,
             "_t[part][k]];\n      ", name, "(own, symbols, from, to, scratch);\n    }\n  }\n");
}

}  // namespace

Result<KernelSource> emit_c_horizontal(const Kernel& kernel) {
  const std::vector<std::vector<size_t>> outputs = common::horizontal_parts(kernel.body);
  KernelSource source;
  source.entry.name = entry_name(kernel);
  source.entry.units = 0;
  source.entry.scratch_bytes = 0;
  std::vector<Part> parts;
  for (size_t k = 0; k < outputs.size(); ++k) {
    LFARM_ASSIGN_OR_RETURN(Part part, emit_part(kernel, outputs, k));
    source.entry.units += part.function.units;
    // A thread computes its parts one after the other.
    source.entry.scratch_bytes =
        common::max(source.entry.scratch_bytes, part.function.scratch_bytes);
    parts.push_back(std::move(part));
  }
  common::CodeWriter names(kernel.body.symbols);
  std::string walks;
  const std::vector<SharedFunction> functions = shared_functions(parts);
  for (size_t k = 0; k < functions.size(); ++k) {
    const Part& part = *functions[k].first;
    std::string name = cat(source.entry.name, "_", k);
    source.text += cat(
        c_function_head("static __attribute__((noinline)) ", name, part.body, part.function, false),
        part.function.text, "}\n", table_text(name, functions[k]));
    walks += walk_text(name, functions[k], names);
  }
  Graph bare;
  bare.symbols = kernel.body.symbols;
  source.text += cat(c_function_head("", source.entry.name, bare, FunctionBody(), false),
                     "  int64_t first = 0;\n", walks, "}\n");
  return source;
}

}  // namespace worker
