#include "common/lowering/text/indices.h"

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/lowering/text/code_writer.h"

namespace common {

Indices declare_positions(CodeWriter& writer, const std::string& name, const Shape& shape,
                          const Expr& flat, bool often) {
  if (shape.size() == 1) return {flat};
  Indices positions = unfold(shape, flat), declared;
  for (size_t k = 0; k < shape.size(); ++k) {
    std::string index = cat(name, k);
    std::string position = often ? writer.text(positions[k]) : writer.rare_text(positions[k]);
    writer.line(cat("const int64_t ", index, " = ", position, ";"));
    declared.push_back(Expr::index(writer.bind_index(index, shape[k], writer.depth())));
  }
  return declared;
}

int64_t stride_along(const Expr& offset, int id) {
  Expr stride = with_index({offset}, id, Expr::index(id) + 1)[0] - offset;
  return stride.is_constant() ? stride.constant() : INT32_MAX;
}

Indices with_index(const Indices& indices, int id, const Expr& replacement) {
  Indices result;
  result.reserve(indices.size());
  for (const Expr& e : indices) {
    result.push_back(e.substitute([&](Var v) -> Expr {
      return v.kind == Var::Kind::kIndex && v.id == id ? replacement : Expr::var(v);
    }));
  }
  return result;
}

Indices operand_indices(const std::vector<int>& reduced, size_t rank, const Indices& indices) {
  Indices result(rank, Expr(0));
  size_t next = 0;
  for (size_t k = 0; k < rank; ++k) {
    bool is_reduced = contains(reduced, static_cast<int>(k));
    if (!is_reduced) result[k] = indices[next++];
  }
  return result;
}

}  // namespace common
