// Recurrent layers and their cells, with every step written out.
#include <algorithm>
#include <array>

#include "clients/pt2/aten/operators.h"
#include "clients/pt2/aten/translate_math.h"

namespace clients {
namespace {

enum class Cell { kTanh, kRelu, kGru, kLstm };

int gates_of(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }

// Weights of one layer in one direction; biases and the projection may be missing.
struct Weights {
  NodeId input = 0;   // (gates * hidden, features)
  NodeId hidden = 0;  // (gates * hidden, state)
  std::optional<NodeId> input_bias, hidden_bias;
  std::optional<NodeId> projection;  // (state, hidden)
};

struct State {
  NodeId h = 0;
  NodeId cell = 0;  // of an LSTM
};

NodeId wide(Context& c, NodeId x) { return c.b.cast(x, compute_dtype(c.b.dtype(x))); }

// x times the transposed weight, plus a bias.
NodeId affine(Context& c, NodeId x, NodeId weight, const std::optional<NodeId>& bias) {
  if (c.b.rank(weight) != 2) c.refuse("a weight is no matrix");
  NodeId y = matmul(c, x, c.b.permute(weight, {1, 0}));
  return bias ? add(c, y, *bias) : y;
}

// One step from the input's part of the gates, which all steps share a product for.
State advance(Context& c, Cell cell, const Weights& w, NodeId from_input, const State& before) {
  NodeId from_hidden = affine(c, before.h, w.hidden, w.hidden_bias);
  int axis = c.b.rank(from_input) - 1;
  auto whole = common::exact_div(c.b.size(from_input, axis), gates_of(cell));
  if (!whole) c.refuse("a weight has another height");
  Expr width = *whole;
  auto part = [&](NodeId x, int64_t k) { return c.b.slice(x, axis, width * Expr(k), width); };
  auto sigmoid = [&](NodeId x) { return c.b.unary(UnaryOp::kSigmoid, x); };
  auto tanh = [&](NodeId x) { return c.b.unary(UnaryOp::kTanh, x); };
  State next = before;
  if (cell == Cell::kGru) {
    NodeId reset = sigmoid(add(c, part(from_input, 0), part(from_hidden, 0)));
    NodeId keep = sigmoid(add(c, part(from_input, 1), part(from_hidden, 1)));
    NodeId fresh = tanh(add(c, part(from_input, 2), mul(c, reset, part(from_hidden, 2))));
    next.h = add(c, mul(c, sub(c, before.h, fresh), keep), fresh);
  } else if (cell == Cell::kLstm) {
    NodeId sum = add(c, from_input, from_hidden);
    NodeId kept = mul(c, sigmoid(part(sum, 1)), before.cell);
    next.cell = rounded(c, add(c, kept, mul(c, sigmoid(part(sum, 0)), tanh(part(sum, 2)))));
    next.h = mul(c, sigmoid(part(sum, 3)), tanh(next.cell));
    if (w.projection) next.h = affine(c, next.h, *w.projection, std::nullopt);
  } else {
    NodeId sum = add(c, from_input, from_hidden);
    next.h = cell == Cell::kTanh ? tanh(sum) : maximum(c, sum, 0);
  }
  next.h = rounded(c, next.h);
  return next;
}

struct Layer {
  NodeId outputs = 0;  // (time, batch, state)
  State last;
};

Layer run_layer(Context& c, Cell cell, const Weights& w, NodeId x, State state, bool backwards) {
  Expr length = c.b.size(x, 0);
  constexpr int64_t kMaxSteps = 4096;
  if (!length.is_constant() || length.constant() < 1 || length.constant() > kMaxSteps) {
    c.refuse("recurrent layers over symbolic, empty or very long sequences are not supported");
  }
  int64_t steps = length.constant();
  NodeId projected = affine(c, x, w.input, w.input_bias);
  std::vector<NodeId> outputs(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = backwards ? steps - 1 - k : k;
    NodeId now = c.b.squeeze(c.b.slice(projected, 0, t, 1), 0);
    state = advance(c, cell, w, now, state);
    outputs[static_cast<size_t>(t)] = c.b.unsqueeze(state.h, 0);
  }
  return {c.b.concat(outputs, 0), state};
}

// Reads layer after layer, direction after direction, off the list of parameters.
class Parameters {
 public:
  Parameters(Context& c, std::vector<NodeId> all, bool biases, size_t layers)
      : c_(c), all_(std::move(all)), biases_(biases) {
    size_t plain = biases ? 4 : 2;
    projected_ = all_.size() == layers * (plain + 1);
    if (!projected_ && all_.size() != layers * plain)
      c.refuse("the parameters are of another number");
  }
  Weights next() {
    Weights w;
    w.input = take();
    w.hidden = take();
    if (biases_) {
      w.input_bias = take();
      w.hidden_bias = take();
    }
    if (projected_) w.projection = take();
    return w;
  }

 private:
  NodeId take() { return wide(c_, all_[next_++]); }
  Context& c_;
  std::vector<NodeId> all_;
  bool biases_;
  bool projected_ = false;
  size_t next_ = 0;
};

// input (time, batch, features), hx (layers * directions, batch, state).
void layers(Context& c, Cell cell) {
  if (c.has("batch_sizes") || !c.has("hx")) c.refuse("packed sequences are not supported");
  if (c.flag("train", false) && c.number("dropout", 0) != 0) {
    c.refuse("dropout is random; export the model in eval mode");
  }
  NodeId x = wide(c, c.tensor("input"));
  if (c.b.rank(x) != 3) c.refuse("it takes (time, batch, features)");
  bool batch_first = c.flag("batch_first", false);
  if (batch_first) x = c.b.permute(x, {1, 0, 2});
  auto count = static_cast<size_t>(c.integer("num_layers"));
  size_t directions = c.flag("bidirectional", false) ? 2 : 1;
  Parameters parameters(c, c.tensors("params"), c.flag("has_biases", true), count * directions);
  std::vector<NodeId> states;
  if (cell == Cell::kLstm) {
    states = c.tensors("hx");
    if (states.size() != 2) c.refuse("it takes two states");
  } else {
    states = {c.tensor("hx")};
  }
  auto start = [&](size_t which, size_t k) {
    NodeId all = wide(c, states[which]);
    return c.b.squeeze(c.b.slice(all, 0, static_cast<int64_t>(k), 1), 0);
  };
  std::vector<NodeId> last_h, last_cell;
  for (size_t layer = 0; layer < count; ++layer) {
    std::vector<NodeId> sides;
    for (size_t side = 0; side < directions; ++side) {
      size_t k = layer * directions + side;
      State begin{start(0, k), cell == Cell::kLstm ? start(1, k) : NodeId{0}};
      Layer run = run_layer(c, cell, parameters.next(), x, begin, side == 1);
      sides.push_back(run.outputs);
      last_h.push_back(c.b.unsqueeze(run.last.h, 0));
      if (cell == Cell::kLstm) last_cell.push_back(c.b.unsqueeze(run.last.cell, 0));
    }
    x = sides.size() == 1 ? sides[0] : c.b.concat(sides, 2);
  }
  c.result(batch_first ? c.b.permute(x, {1, 0, 2}) : x, 0);
  if (c.wants_output(1)) c.result(c.b.concat(last_h, 0), 1);
  if (cell == Cell::kLstm && c.wants_output(2)) c.result(c.b.concat(last_cell, 0), 2);
}

void one_step(Context& c, Cell cell) {
  auto optional = [&](std::string_view name) {
    auto given = c.optional_tensor(name);
    return given ? std::optional<NodeId>(wide(c, *given)) : std::nullopt;
  };
  Weights w{wide(c, c.tensor("w_ih")), wide(c, c.tensor("w_hh")), optional("b_ih"),
            optional("b_hh"), std::nullopt};
  State before;
  if (cell == Cell::kLstm) {
    std::vector<NodeId> states = c.tensors("hx");
    if (states.size() != 2) c.refuse("it takes two states");
    before = {wide(c, states[0]), wide(c, states[1])};
  } else {
    before.h = wide(c, c.tensor("hx"));
  }
  NodeId from_input = affine(c, wide(c, c.tensor("input")), w.input, w.input_bias);
  State after = advance(c, cell, w, from_input, before);
  c.result(after.h, 0);
  if (cell == Cell::kLstm) c.result(after.cell, 1);
}

}  // namespace

void add_recurrent_operators(OperatorTable* t) {
  t->add("aten.lstm", [](Context& c) { layers(c, Cell::kLstm); });
  t->add("aten.gru", [](Context& c) { layers(c, Cell::kGru); });
  t->add("aten.rnn_tanh", [](Context& c) { layers(c, Cell::kTanh); });
  t->add("aten.rnn_relu", [](Context& c) { layers(c, Cell::kRelu); });
  t->add("aten.lstm_cell", [](Context& c) { one_step(c, Cell::kLstm); });
  t->add("aten.gru_cell", [](Context& c) { one_step(c, Cell::kGru); });
  t->add("aten.rnn_tanh_cell", [](Context& c) { one_step(c, Cell::kTanh); });
  t->add("aten.rnn_relu_cell", [](Context& c) { one_step(c, Cell::kRelu); });
}

}  // namespace clients
