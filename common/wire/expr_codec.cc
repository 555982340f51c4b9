// The table of size expressions: written in dependency order, rebuilt through the expression
// algebra and refused unless each entry is already canonical, so that no entry can expand.
#include "common/wire/ir_pieces.h"

namespace common {
namespace {

namespace ir = schemas::ir;

// Constants that a reference holds itself.
constexpr int64_t kInlineMin = -(int64_t{1} << 61);
constexpr int64_t kInlineMax = int64_t{1} << 61;
constexpr uint32_t kVariableIdMax = 1'000'000;

bool is_atom(const Expr& expr) {
  return expr.kind() != ExprKind::kConstant && expr.kind() != ExprKind::kSum;
}

[[noreturn]] void not_canonical() { throw Malformed{"a size expression that is not canonical"}; }

}  // namespace

// ---- Writing -----------------------------------------------------------------------------------

int64_t IrWriter::ref(const Expr& expr) {
  if (expr.is_constant() && expr.constant() >= kInlineMin && expr.constant() <= kInlineMax) {
    return expr.constant() * 2;
  }
  auto known = known_.find(expr);
  if (known != known_.end()) return known->second;
  // What it consists of comes before it.
  if (expr.kind() == ExprKind::kSum) {
    for (const Expr::Term& term : expr.terms()) {
      for (const Expr& factor : term.factors) ref(factor);
    }
  } else if (expr.kind() >= ExprKind::kFloorDiv) {
    ref(expr.left());
    ref(expr.right());
  }
  auto reference = static_cast<int64_t>(table_.size()) * 2 + 1;
  table_.push_back(expr);
  known_.emplace(expr, reference);
  return reference;
}

void IrWriter::refs(Refs::Builder out, const std::vector<Expr>& exprs) {
  for (size_t i = 0; i < exprs.size(); ++i) out.set(list_size(i), ref(exprs[i]));
}

void IrWriter::entry(ir::ExprEntry::Builder out, const Expr& expr) {
  auto pair = [&](ir::ExprEntry::Pair::Builder builder) {
    builder.setLeft(ref(expr.left()));
    builder.setRight(ref(expr.right()));
  };
  switch (expr.kind()) {
    case ExprKind::kConstant:
      return out.setConstant(expr.constant());
    case ExprKind::kVar: {
      Var var = *expr.as_var();
      auto id = static_cast<uint32_t>(var.id);
      return var.kind == Var::Kind::kSymbol ? out.setSymbol(id) : out.setIndex(id);
    }
    case ExprKind::kFloorDiv:
      return pair(out.initFloorDiv());
    case ExprKind::kMod:
      return pair(out.initMod());
    case ExprKind::kMin:
      return pair(out.initMin());
    case ExprKind::kMax:
      return pair(out.initMax());
    case ExprKind::kSum:
      break;
  }
  auto sum = out.initSum();
  sum.setConstant(expr.sum_constant());
  auto terms = expr.terms();
  auto list = sum.initTerms(list_size(terms.size()));
  for (size_t i = 0; i < terms.size(); ++i) {
    auto term = list[list_size(i)];
    term.setCoefficient(terms[i].coefficient);
    refs(term.initFactors(list_size(terms[i].factors.size())), terms[i].factors);
  }
}

void IrWriter::exprs(capnp::List<ir::ExprEntry>::Builder out) {
  // Every part already has its entry, so that the table does not grow here.
  for (size_t i = 0; i < table_.size(); ++i) entry(out[list_size(i)], table_[i]);
}

// ---- Reading -----------------------------------------------------------------------------------

IrReader::IrReader(capnp::List<ir::ExprEntry>::Reader table) {
  check_count(table, kExprsMax, "expressions");
  table_.reserve(table.size());
  measures_.reserve(table.size());
  uint64_t total = 0;
  for (auto in : table) {
    Measure measure;
    Expr built = entry(in, measure);
    total += measure.weight;
    if (measure.weight > kExprWeightMax || measure.depth > kExprDepthMax ||
        total > kExprWeightTotalMax) {
      throw Malformed{"size expressions that are too large"};
    }
    table_.push_back(std::move(built));
    measures_.push_back(measure);
  }
}

Expr IrReader::expr(int64_t ref) const {
  if ((ref & 1) == 0) return ref / 2;
  auto index = static_cast<uint64_t>(ref) / 2;
  if (ref < 0 || index >= table_.size()) {
    throw Malformed{"a reference to an expression that is not there"};
  }
  return table_[index];
}

Expr IrReader::part(int64_t ref, Measure& measure) const {
  Expr found = expr(ref);
  Measure of_part = (ref & 1) == 0 ? Measure{} : measures_[static_cast<uint64_t>(ref) / 2];
  // Weights stay small numbers: each is at most kExprWeightMax, and so is each list of parts.
  measure.weight += of_part.weight;
  measure.depth = std::max(measure.depth, of_part.depth + 1);
  if (measure.weight > kExprWeightMax) throw Malformed{"a size expression that is too large"};
  return found;
}

Expr IrReader::pair(ir::ExprEntry::Reader in, Measure& measure) const {
  auto which = in.which();
  auto parts = which == ir::ExprEntry::FLOOR_DIV ? in.getFloorDiv()
               : which == ir::ExprEntry::MOD     ? in.getMod()
               : which == ir::ExprEntry::MIN     ? in.getMin()
                                                 : in.getMax();
  Expr left = part(parts.getLeft(), measure);
  Expr right = part(parts.getRight(), measure);
  bool divides = which == ir::ExprEntry::FLOOR_DIV || which == ir::ExprEntry::MOD;
  if (divides && right.is_constant() && right.constant() <= 0) {
    throw Malformed{"a size expression that divides by less than one"};
  }
  Expr built = which == ir::ExprEntry::FLOOR_DIV ? floor_div(left, right)
               : which == ir::ExprEntry::MOD     ? mod(left, right)
               : which == ir::ExprEntry::MIN     ? min(left, right)
                                                 : max(left, right);
  ExprKind kind = which == ir::ExprEntry::FLOOR_DIV ? ExprKind::kFloorDiv
                  : which == ir::ExprEntry::MOD     ? ExprKind::kMod
                  : which == ir::ExprEntry::MIN     ? ExprKind::kMin
                                                    : ExprKind::kMax;
  if (built.kind() != kind || built.left() != left || built.right() != right) not_canonical();
  return built;
}

Expr IrReader::sum(ir::ExprEntry::Sum::Reader in, Measure& measure) const {
  Expr built = in.getConstant();
  auto terms = in.getTerms();
  check_count(terms, kExprWeightMax, "terms");
  for (auto term : terms) {
    Expr product = term.getCoefficient();
    auto factors = term.getFactors();
    if (factors.size() == 0) not_canonical();
    for (int64_t factor : factors) {
      Expr atom = part(factor, measure);
      // Products of sums would multiply out.
      if (!is_atom(atom)) not_canonical();
      product = product * atom;
    }
    built = built + product;
  }
  if (built.kind() != ExprKind::kSum || built.sum_constant() != in.getConstant() ||
      built.terms().size() != terms.size()) {
    not_canonical();
  }
  return built;
}

Expr IrReader::entry(ir::ExprEntry::Reader in, Measure& measure) const {
  auto variable = [](uint32_t id) {
    if (id > kVariableIdMax) throw Malformed{cat("variable number ", id)};
    return static_cast<int>(id);
  };
  switch (in.which()) {
    case ir::ExprEntry::CONSTANT:
      return in.getConstant();
    case ir::ExprEntry::SYMBOL:
      return Expr::symbol(variable(in.getSymbol()));
    case ir::ExprEntry::INDEX:
      return Expr::index(variable(in.getIndex()));
    case ir::ExprEntry::SUM:
      return sum(in.getSum(), measure);
    case ir::ExprEntry::FLOOR_DIV:
    case ir::ExprEntry::MOD:
    case ir::ExprEntry::MIN:
    case ir::ExprEntry::MAX:
      return pair(in, measure);
  }
  throw Malformed{"a size expression of unknown kind"};
}

Expr IrReader::size_expr(int64_t ref, size_t symbols) const {
  Expr found = expr(ref);
  bool ok = true;
  found.visit_vars([&](Var var) {
    ok = ok && var.kind == Var::Kind::kSymbol && static_cast<size_t>(var.id) < symbols;
  });
  if (!ok) throw Malformed{cat("the size ", found.text(), " with an undeclared variable")};
  return found;
}

std::vector<Expr> IrReader::size_exprs(Refs::Reader refs, size_t count_max, size_t symbols) const {
  check_count(refs, count_max, "sizes");
  std::vector<Expr> exprs;
  exprs.reserve(refs.size());
  for (int64_t ref : refs) exprs.push_back(size_expr(ref, symbols));
  return exprs;
}

}  // namespace common
