// Operators that compute nothing: aliases, assertions, modes, and arithmetic on sizes.
#include "clients/pt2/operators.h"
#include "clients/pt2/translate_math.h"

namespace clients {
namespace {

void same(Context& c) { c.alias("self"); }

void dropout(Context& c) {
  if (c.flag("train", false) && c.number("p", 0.5) != 0) {
    c.refuse("dropout is random; export the model in eval mode");
  }
  c.alias("input");
}

void nothing(Context&) {}

void size_of(Context& c) {
  int rank = c.b.rank(c.any_tensor("self"));
  int axis = c.axis("dim", rank);
  c.set_size(c.b.shape(c.any_tensor("self"))[static_cast<size_t>(axis)]);
}

void element_number(Context& c) { c.set_size(common::element_count(c.b.shape(c.tensor("self")))); }

// A scalar tensor's value as a Python number.
void item(Context& c) {
  NodeId x = c.tensor("self");
  DType d = c.b.dtype(x);
  DType wide = common::is_float(d) ? DType::kFloat64 : d == DType::kBool ? d : DType::kInt64;
  c.set_data_number(c.b.cast(c.b.reshape(x, {}), wide));
}

template <class Combine>
void combine_sizes(Context& c, Combine combine) {
  c.set_size(combine(c.size("a"), c.size("b")));
}

}  // namespace

void add_state_operators(OperatorTable* t) {
  for (const char* name :
       {"aten.alias", "aten.detach", "aten.detach_", "aten.lift_fresh", "aten.contiguous",
        "aten.positive", "aten.resolve_conj", "aten.resolve_neg", "aten.real_if_close",
        "aten.conj_physical", "aten.conj", "aten._conj", "aten.requires_grad_"}) {
    t->add(name, same);
  }
  t->add("aten.dropout", dropout);
  t->add("aten.feature_dropout", dropout);
  t->add("aten.alpha_dropout", dropout);
  t->add("aten.native_dropout", dropout);
  for (const char* name :
       {"aten._assert_tensor_metadata", "aten._assert_async", "aten._assert_scalar",
        "aten.sym_constrain_range", "aten.sym_constrain_range_for_size", "_operator.le",
        "_operator.ge", "_operator.lt", "_operator.gt", "_operator.eq", "_operator.ne",
        "_operator.and_", "_operator.or_", "_operator.not_"}) {
    t->add(name, nothing);
  }
  t->add("aten.item", item);
  t->add("aten._local_scalar_dense", item);
  t->add("aten.sym_size", size_of);
  t->add("aten.sym_numel", element_number);
  t->add("_operator.add",
         [](Context& c) { combine_sizes(c, [](const Expr& a, const Expr& b) { return a + b; }); });
  t->add("_operator.sub",
         [](Context& c) { combine_sizes(c, [](const Expr& a, const Expr& b) { return a - b; }); });
  t->add("_operator.mul",
         [](Context& c) { combine_sizes(c, [](const Expr& a, const Expr& b) { return a * b; }); });
  t->add("_operator.floordiv", [](Context& c) {
    combine_sizes(c, [](const Expr& a, const Expr& b) { return common::floor_div(a, b); });
  });
  t->add("_operator.mod", [](Context& c) {
    combine_sizes(c, [](const Expr& a, const Expr& b) { return common::mod(a, b); });
  });
  t->add("_operator.neg", [](Context& c) { c.set_size(-c.size("a")); });
  t->add("torch.sym_max", [](Context& c) {
    combine_sizes(c, [](const Expr& a, const Expr& b) { return common::max(a, b); });
  });
  t->add("torch.sym_min", [](Context& c) {
    combine_sizes(c, [](const Expr& a, const Expr& b) { return common::min(a, b); });
  });
}

}  // namespace clients
