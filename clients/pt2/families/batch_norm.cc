// Batch and instance normalisation, in evaluation and in training, where they also update running
// statistics.
#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

// Shaped (1, channels, 1, ...).
struct Statistics {
  NodeId average = 0;
  NodeId variance = 0;  // of the whole batch, not corrected
  NodeId number = 0;    // of elements a channel has; a scalar
};

// How the overloads differ.
struct Options {
  bool training = false;
  bool writes = true;  // updates the running statistics in place, in training
  size_t updated = 0;  // else the results that hold updated statistics start here; 0: none
};

Statistics of_batch(Context& c, NodeId x) {
  if (c.b.rank(x) < 2) c.refuse("it takes channels on axis 1");
  std::vector<int> axes;
  for (int k = 0; k < c.b.rank(x); ++k) {
    if (k != 1) axes.push_back(k);
  }
  Statistics s;
  s.average = mean(c, x, axes);
  NodeId centred = sub(c, x, s.average);
  s.variance = mean(c, mul(c, centred, centred), axes);
  s.number = count(c, x, axes, c.b.dtype(x));
  return s;
}

NodeId affine(Context& c, NodeId x) {
  if (auto weight = c.optional_tensor("weight")) {
    x = mul(c, x, per_channel(c, *weight, x));
  }
  if (auto bias = c.optional_tensor("bias")) {
    x = add(c, x, per_channel(c, *bias, x));
  }
  return x;
}

// The running statistics after a step towards the batch's, as vectors in `d`.
struct Running {
  NodeId average = 0;
  NodeId variance = 0;
};
Running step(Context& c, NodeId average, NodeId variance, NodeId number) {
  DType d = c.b.dtype(average);
  double momentum = c.number("momentum", 0.1);
  auto blend = [&](std::string_view name, NodeId fresh) {
    NodeId old = c.b.cast(c.tensor(name), d);
    NodeId line = c.b.reshape(fresh, c.b.shape(old));
    return add(c, mul(c, old, 1 - momentum), mul(c, line, momentum));
  };
  NodeId unbiased = mul(c, variance, div(c, number, add(c, number, -1.0)));
  return {blend("running_mean", average), blend("running_var", unbiased)};
}

void update(Context& c, const Running& running) {
  c.mutate("running_mean", running.average);
  c.mutate("running_var", running.variance);
}

void saved(Context& c, const Statistics& s, NodeId rstd, bool training) {
  for (size_t k = 1; k < 3; ++k) {
    if (!c.wants_output(k)) continue;
    Sizes shape = c.out_shape(k);
    // Evaluation saves empty statistics.
    bool kept = training && shape.size() == 1 && !shape[0].is_constant(0);
    NodeId value =
        kept ? c.b.reshape(k == 1 ? s.average : rstd, shape) : c.b.full(c.out_dtype(k), shape, 0);
    c.result(value, k);
  }
}

void batch_norm(Context& c, const Options& options) {
  NodeId x = float_tensor(c, "input");
  bool stored = c.has("running_mean") && c.has("running_var");
  bool own = options.training || !stored;
  Statistics s;
  if (own) {
    s = of_batch(c, x);
  } else {
    s.average = per_channel(c, c.tensor("running_mean"), x);
    s.variance = per_channel(c, c.tensor("running_var"), x);
  }
  NodeId rstd = c.b.unary(UnaryOp::kRsqrt, add(c, s.variance, c.number("eps", 1e-5)));
  NodeId normal = mul(c, sub(c, x, s.average), rstd);
  c.result(affine(c, normal));
  saved(c, s, rstd, own);
  // What a fused kernel would keep for its backward pass.
  size_t reserve = 3;
  if (options.updated != 3 && c.wants_output(reserve)) {
    c.result(c.b.full(c.out_dtype(reserve), c.out_shape(reserve), 0), reserve);
  }
  if (!stored) return;
  if (options.updated != 0) {
    Running after{c.tensor("running_mean"), c.tensor("running_var")};
    if (options.training) after = step(c, s.average, s.variance, s.number);
    c.result(after.average, options.updated);
    c.result(after.variance, options.updated + 1);
  } else if (options.training && options.writes) {
    update(c, step(c, s.average, s.variance, s.number));
  }
}

void flagged(Context& c) { batch_norm(c, {.training = c.flag("training", false)}); }
void flagged_functional(Context& c) {
  batch_norm(c, {.training = c.flag("training", false), .writes = false, .updated = 3});
}

// Every instance is a batch of its own.
void instance_norm(Context& c) {
  NodeId x = float_tensor(c, "input");
  int rank = c.b.rank(x);
  if (rank < 2) c.refuse("it takes channels on axis 1");
  bool stored = c.has("running_mean") && c.has("running_var");
  bool own = c.flag("use_input_stats", true);
  if (!own && !stored) c.refuse("running statistics are missing");
  std::vector<int> axes;
  for (int k = 2; k < rank; ++k) axes.push_back(k);
  NodeId average;
  NodeId variance;
  if (own) {
    average = mean(c, x, axes);
    NodeId centred = sub(c, x, average);
    variance = mean(c, mul(c, centred, centred), axes);
  } else {
    average = per_channel(c, c.tensor("running_mean"), x);
    variance = per_channel(c, c.tensor("running_var"), x);
  }
  NodeId rstd = c.b.unary(UnaryOp::kRsqrt, add(c, variance, c.number("eps", 1e-5)));
  c.result(affine(c, mul(c, sub(c, x, average), rstd)));
  if (!own || !stored) return;
  // Each instance takes its step; their mean is kept.
  NodeId number = count(c, x, axes, c.b.dtype(x));
  update(c, step(c, mean(c, average, {0}), mean(c, variance, {0}), number));
}

}  // namespace

void add_batch_norm_operators(OperatorTable* t) {
  t->add("aten.batch_norm", flagged);
  t->add("aten.native_batch_norm", flagged);
  t->add("aten.cudnn_batch_norm", flagged);
  t->add("aten._native_batch_norm_legit", flagged);
  t->add("aten._native_batch_norm_legit_functional", flagged_functional);
  t->add("aten._native_batch_norm_legit_no_training", [](Context& c) { batch_norm(c, {}); });
  t->add("aten._batch_norm_no_update", [](Context& c) { batch_norm(c, {}); });
  t->add("aten._batch_norm_with_update", [](Context& c) { batch_norm(c, {.training = true}); });
  t->add("aten._batch_norm_with_update_functional",
         [](Context& c) { batch_norm(c, {.training = true, .writes = false, .updated = 4}); });
  t->add("aten.instance_norm", instance_norm);
}

}  // namespace clients
