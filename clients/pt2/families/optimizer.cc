// Fused steps of optimizers over lists of parameters, and what scales their losses, in place or as
// results.
#include <limits>
#include <numeric>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// One argument list, item by item, and what becomes of it.
class Step {
 public:
  // `lists` in the order of the results.
  Step(Context& c, std::vector<std::string_view> lists) : c_(c), lists_(std::move(lists)) {
    for (std::string_view list : lists_) items_.push_back(c.tensors(list));
    if (c.has("found_inf")) {
      NodeId found = c.b.reshape(c.tensor("found_inf"), {});
      finite_ = c.b.binary(BinaryOp::kEqual, found, number_like(c, found, 0));
    }
  }
  size_t count() const { return items_[0].size(); }
  // Item k of a list, in the type that parameter k is computed in.
  NodeId read(size_t list, size_t k) {
    if (items_[list].size() != count()) c_.refuse("the lists differ in length");
    return c_.b.cast(items_[list][k], compute_dtype(c_.b.dtype(items_[0][k])));
  }
  // The gradient, unscaled and turned for maximisation.
  NodeId gradient(size_t k) {
    NodeId g = read(1, k);
    if (c_.has("grad_scale")) {
      NodeId scale = c_.b.cast(c_.b.reshape(c_.tensor("grad_scale"), {}), c_.b.dtype(g));
      g = div(c_, g, scale);
      write(1, k, g);
    }
    return c_.flag("maximize", false) ? c_.b.unary(UnaryOp::kNeg, g) : g;
  }
  // Nothing changes where a gradient was found not to be finite.
  void write(size_t list, size_t k, NodeId value) {
    NodeId before = items_[list][k];
    value = c_.b.cast(value, c_.b.dtype(before));
    if (finite_) value = c_.b.select(*finite_, value, before);
    if (c_.output_count() == 0) {
      c_.mutate_item(lists_[list], k, value);
    } else {
      c_.set(value, list * count() + k);
    }
  }
  // Results that the step leaves as they are.
  void keep(size_t list) {
    if (c_.output_count() == 0) return;
    for (size_t k = 0; k < items_[list].size(); ++k) {
      c_.set(items_[list][k], list * count() + k);
    }
  }

 private:
  Context& c_;
  std::vector<std::string_view> lists_;
  std::vector<std::vector<NodeId>> items_;
  std::optional<NodeId> finite_;
};

// A number, or a tensor that holds one, as a scalar like x.
NodeId number_of(Context& c, std::string_view name, NodeId x) {
  NodeId value = as(c, operand(c, name), c.b.dtype(x));
  return c.b.reshape(value, {});
}

void sgd(Context& c) {
  double momentum = c.number("momentum", 0);
  Step step(c, momentum == 0
                   ? std::vector<std::string_view>{"self", "grads"}
                   : std::vector<std::string_view>{"self", "grads", "momentum_buffer_list"});
  if (!c.has("grad_scale")) step.keep(1);
  for (size_t k = 0; k < step.count(); ++k) {
    NodeId x = step.read(0, k);
    NodeId g = step.gradient(k);
    g = add(c, g, mul(c, x, c.number("weight_decay", 0)));
    if (momentum != 0) {
      NodeId old = mul(c, step.read(2, k), momentum);
      bool first = c.flag("is_first_step", false);
      NodeId buffer = first ? g : add(c, old, mul(c, g, 1 - c.number("dampening", 0)));
      step.write(2, k, buffer);
      g = c.flag("nesterov", false) ? add(c, g, mul(c, buffer, momentum)) : buffer;
    }
    step.write(0, k, sub(c, x, mul(c, number_of(c, "lr", x), g)));
  }
}

// 1 - beta^step, in float64: for beta near 1 float32 would lose half of its digits.
NodeId correction(Context& c, double beta, NodeId count, DType d) {
  NodeId wide = c.b.reshape(c.b.cast(count, DType::kFloat64), {});
  NodeId power = c.b.binary(BinaryOp::kPow, number_like(c, wide, beta), wide);
  return c.b.cast(sub(c, number_like(c, wide, 1), power), d);
}

// `decoupled`: weight decay shrinks the parameter itself (AdamW), not the gradient.
void adam(Context& c, bool decoupled) {
  bool amsgrad = c.flag("amsgrad", false);
  std::vector<std::string_view> lists = {"self", "grads", "exp_avgs", "exp_avg_sqs"};
  if (amsgrad) lists.push_back("max_exp_avg_sqs");
  Step step(c, lists);
  if (!c.has("grad_scale")) step.keep(1);
  std::vector<NodeId> counts = c.tensors("state_steps");
  if (counts.size() != step.count()) c.refuse("the lists differ in length");
  double beta1 = c.number("beta1", 0.9), beta2 = c.number("beta2", 0.999);
  double decay = c.number("weight_decay", 0);
  for (size_t k = 0; k < step.count(); ++k) {
    NodeId x = step.read(0, k);
    DType d = c.b.dtype(x);
    NodeId rate = number_of(c, "lr", x);
    NodeId g = step.gradient(k);
    if (decay != 0 && decoupled) x = sub(c, x, mul(c, mul(c, x, rate), decay));
    if (decay != 0 && !decoupled) g = add(c, g, mul(c, x, decay));
    NodeId average = step.read(2, k);
    average = add(c, average, mul(c, sub(c, g, average), 1 - beta1));
    NodeId square = add(c, mul(c, step.read(3, k), beta2), mul(c, mul(c, g, g), 1 - beta2));
    step.write(2, k, average);
    step.write(3, k, square);
    if (amsgrad) {
      square = c.b.binary(BinaryOp::kMax, step.read(4, k), square);
      step.write(4, k, square);
    }
    NodeId root = c.b.unary(UnaryOp::kSqrt, correction(c, beta2, counts[k], d));
    NodeId spread = add(c, div(c, c.b.unary(UnaryOp::kSqrt, square), root), c.number("eps", 1e-8));
    NodeId size = div(c, rate, correction(c, beta1, counts[k], d));
    step.write(0, k, sub(c, x, mul(c, size, div(c, average, spread))));
  }
}

void adagrad(Context& c) {
  Step step(c, {"self", "grads", "state_sums", "state_steps"});
  if (!c.has("grad_scale")) step.keep(1);
  step.keep(3);
  for (size_t k = 0; k < step.count(); ++k) {
    NodeId x = step.read(0, k);
    NodeId g = add(c, step.gradient(k), mul(c, x, c.number("weight_decay", 0)));
    NodeId sum = add(c, step.read(2, k), mul(c, g, g));
    step.write(2, k, sum);
    NodeId past = add(c, c.b.reshape(step.read(3, k), {}), -1.0);
    NodeId slowed = add(c, mul(c, past, c.number("lr_decay", 0)), 1.0);
    NodeId rate = div(c, number_of(c, "lr", x), slowed);
    NodeId spread = add(c, c.b.unary(UnaryOp::kSqrt, sum), c.number("eps", 1e-10));
    step.write(0, k, sub(c, x, mul(c, rate, div(c, g, spread))));
  }
}

// ---- Scales of losses --------------------------------------------------------------------------

// Whether an element is infinite or no number.
NodeId has_overflown(Context& c, NodeId x) {
  NodeId finite = less(c, c.b.unary(UnaryOp::kAbs, x), std::numeric_limits<double>::infinity());
  std::vector<int> axes(static_cast<size_t>(c.b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  return c.b.reduce(ReduceOp::kMax, c.b.cast(logical_not(c, finite), DType::kFloat32), axes);
}

// Gradients over the scale, and whether any of them was infinite or no number.
void unscale(Context& c) {
  std::vector<NodeId> gradients = c.tensors("self");
  NodeId before = c.tensor("found_inf");
  NodeId found = c.b.reshape(before, {});
  for (size_t k = 0; k < gradients.size(); ++k) {
    NodeId g = c.b.cast(gradients[k], compute_dtype(c.b.dtype(gradients[k])));
    NodeId overflown = c.b.cast(has_overflown(c, g), c.b.dtype(found));
    NodeId is_new = c.b.binary(BinaryOp::kLess, number_like(c, overflown, 0), overflown);
    found = c.b.select(is_new, overflown, found);
    NodeId factor = c.b.cast(c.b.reshape(c.tensor("inv_scale"), {}), c.b.dtype(g));
    NodeId unscaled = c.b.cast(mul(c, g, factor), c.b.dtype(gradients[k]));
    if (c.output_count() == 0) {
      c.mutate_item("self", k, unscaled);
    } else {
      c.set(unscaled, k);
    }
  }
  found = c.b.reshape(found, c.b.shape(before));
  if (c.output_count() == 0) return c.mutate("found_inf", found);
  c.set(found, gradients.size());
}

// A scale that grows after as many steps without overflow as `growth_interval` says, and shrinks
// with each overflow.
void update_scale(Context& c) {
  NodeId before = c.tensor("self"), steps = c.tensor("growth_tracker");
  NodeId scale = c.b.reshape(before, {});
  NodeId count = c.b.reshape(steps, {});
  NodeId overflown = truth(c, c.b.reshape(c.tensor("found_inf"), {}));
  NodeId next = c.b.binary(BinaryOp::kAdd, count, c.b.scalar_int(c.b.dtype(count), 1));
  NodeId interval = c.b.scalar_int(c.b.dtype(count), c.integer("growth_interval"));
  NodeId due = c.b.binary(BinaryOp::kEqual, next, interval);
  NodeId grown = mul(c, scale, c.number("scale_growth_factor", 2));
  NodeId fits = less(c, grown, std::numeric_limits<double>::infinity());
  NodeId kept = c.b.select(c.b.binary(BinaryOp::kAnd, due, fits), grown, scale);
  NodeId shrunk = mul(c, scale, c.number("scale_backoff_factor", 0.5));
  NodeId restarts = c.b.binary(BinaryOp::kOr, overflown, due);
  NodeId zero = c.b.scalar_int(c.b.dtype(count), 0);
  count = c.b.reshape(c.b.select(restarts, zero, next), c.b.shape(steps));
  c.set(c.b.reshape(c.b.select(overflown, shrunk, kept), c.b.shape(before)));
  if (c.output_count() > 1) return c.set(count, 1);
  c.mutate("growth_tracker", count);
}

}  // namespace

void add_optimizer_operators(OperatorTable* t) {
  t->add("aten._amp_foreach_non_finite_check_and_unscale", unscale);
  t->add("aten._amp_update_scale", update_scale);
  t->add("aten._fused_sgd", sgd);
  t->add("aten._fused_adam", [](Context& c) { adam(c, false); });
  t->add("aten._fused_adamw", [](Context& c) { adam(c, true); });
  t->add("aten._fused_adagrad", adagrad);
}

}  // namespace clients
