#include "worker/codegen/c/entry_text.h"

#include "common/base/cat.h"
#include "common/lowering/text/c_text.h"

namespace worker {

using common::c_storage_type;
using common::cat;
using common::CodeWriter;
using common::FunctionBody;
using common::Graph;
using common::Scratch;

std::string c_function_head(std::string_view qualifiers, std::string_view name, const Graph& body,
                            const FunctionBody& function, bool in_place) {
  std::string_view restricted = in_place ? "" : "restrict ";
  std::string text = cat(qualifiers, "void ", name,
                         "(void* const* restrict buffers, const int64_t* restrict symbols, "
                         "int64_t begin, int64_t end, void* restrict scratch) {\n");
  for (size_t k = 0; k < body.symbols.size(); ++k) {
    text += cat("  const int64_t s", k, " = symbols[", k, "];\n");
  }
  auto pointer = [&](std::string_view qualifier, common::DType dtype, std::string_view name,
                     size_t number, size_t buffer) {
    text += cat("  ", qualifier, c_storage_type(dtype), "* ", restricted, "const ", name, number,
                " = __builtin_assume_aligned(buffers[", buffer, "], 64);\n");
  };
  for (size_t k = 0; k < body.inputs.size(); ++k) {
    pointer("const ", body.inputs[k].dtype, "in", k, k);
  }
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    pointer("", body.node(body.outputs[k].node).dtype, "out", k, body.inputs.size() + k);
  }
  CodeWriter names(body.symbols);
  for (const Scratch::Piece& piece : function.scratch) {
    text += cat("  ", piece.type, "* restrict const ", piece.name,
                " = __builtin_assume_aligned((char*)scratch + ", names.rare_text(piece.offset),
                ", 64);\n");
  }
  return text;
}

}  // namespace worker
