#include "clients/pt2/nested_graphs.h"

#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::Code;
using Values = std::vector<Context::Value>;

std::optional<int64_t> combined(BinaryOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case BinaryOp::kAdd:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case BinaryOp::kSub:
      return __builtin_sub_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case BinaryOp::kMul:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case BinaryOp::kAnd:
      return a & b;
    case BinaryOp::kOr:
      return a | b;
    case BinaryOp::kLess:
      return a < b ? 1 : 0;
    case BinaryOp::kLessEqual:
      return a <= b ? 1 : 0;
    case BinaryOp::kEqual:
      return a == b ? 1 : 0;
    case BinaryOp::kNotEqual:
      return a != b ? 1 : 0;
    default:
      return std::nullopt;
  }
}

// The one value of an integer tensor, where it follows from constants by what counters and their
// conditions are made of.
std::optional<int64_t> known_integer(Context& c, NodeId id) {
  const common::Node& node = c.b.node(id);
  if (common::is_float(node.dtype)) return std::nullopt;
  if (auto value = c.b.uniform_value(id)) return static_cast<int64_t>(*value);
  if (node.op == common::Op::kCast) return known_integer(c, node.operands[0]);
  if (node.op == common::Op::kView) {
    const View& view = common::attr<common::ViewAttr>(node).view;
    return view.valid.empty() ? known_integer(c, node.operands[0]) : std::nullopt;
  }
  if (node.op == common::Op::kUnary && node.dtype == DType::kBool &&
      common::attr<common::UnaryAttr>(node).op == UnaryOp::kNot) {
    auto value = known_integer(c, node.operands[0]);
    return value ? std::optional<int64_t>(*value == 0 ? 1 : 0) : std::nullopt;
  }
  if (node.op != common::Op::kBinary) return std::nullopt;
  auto a = known_integer(c, node.operands[0]);
  auto b = known_integer(c, node.operands[1]);
  if (!a || !b) return std::nullopt;
  return combined(common::attr<common::BinaryAttr>(node).op, *a, *b);
}

// A node of a higher-order operator, its graphs apart from what it is given.
class Nested {
 public:
  Nested(Context& context, const ExportGraph& outer, const ExportNode& node,
         const std::function<common::Status(const ExportGraph&)>& translate)
      : c_(context), outer_(outer), node_(node), translate_(translate) {
    for (const NamedArgument& input : node.inputs) {
      if (auto* nested = std::get_if<GraphArgument>(&input.value)) {
        bodies_.push_back(nested->graph.get());
      } else if (!bodies_.empty()) {
        groups_.emplace_back();
        append_names(input.value, &groups_.back());
      }
    }
    for (const Argument& output : node.outputs) append_names(output, &names_);
  }

  void run() {
    std::string_view target = short_target(node_);
    c_.begin(outer_, node_);
    if (target.starts_with("higher_order.wrap") && bodies_.size() == 1) {
      define(body(*bodies_[0], given()));
    } else if (target == "higher_order.cond" && bodies_.size() == 2) {
      condition();
    } else if (target == "higher_order.scan" && bodies_.size() == 1 && groups_.size() >= 2) {
      scan();
    } else if (target == "higher_order.while_loop" && bodies_.size() == 2 && !groups_.empty()) {
      while_loop();
    } else {
      c_.refuse("this operator on graphs is not supported; write its steps out");
    }
  }

 private:
  // Everything that follows the graphs.
  Values given() const {
    Values out;
    for (const auto& group : groups_) {
      for (const std::string& name : group) out.push_back(c_.value(name));
    }
    return out;
  }
  Values group(size_t k) const {
    Values out;
    if (k >= groups_.size()) return out;
    for (const std::string& name : groups_[k]) out.push_back(c_.value(name));
    return out;
  }

  void define(const Values& results) {
    c_.begin(outer_, node_);
    if (results.size() != names_.size()) {
      throw Refusal{Code::kCorrupt, "its graph gives another number of results"};
    }
    for (size_t k = 0; k < names_.size(); ++k) c_.define_value(names_[k], results[k]);
  }

  // Both branches run, for they compute and do nothing else.
  void condition() {
    c_.begin_branches();
    Values yes = body(*bodies_[0], given());
    Values no = body(*bodies_[1], given());
    c_.end_branches();
    c_.begin(outer_, node_);
    if (yes.size() != names_.size() || no.size() != names_.size()) {
      throw Refusal{Code::kCorrupt, "its graph gives another number of results"};
    }
    for (size_t k = 0; k < names_.size(); ++k) {
      c_.choose(node_.inputs[0].name, names_[k], yes[k], no[k]);
    }
  }

  // The rows of `xs` one after the other. A search rolls the equal steps into a loop again.
  void scan() {
    Values carried = group(0);
    std::vector<NodeId> rows;
    for (const std::string& name : groups_[1]) rows.push_back(c_.read(name));
    if (rows.empty()) c_.refuse("a scan without inputs is not supported");
    Expr length = c_.b.size(rows[0], 0);
    if (!length.is_constant() || length.constant() < 1 || length.constant() > kMaxLoopSteps) {
      c_.refuse(cat("its length is ", length.text(), ", not a constant from 1 to ", kMaxLoopSteps));
    }
    std::vector<std::vector<NodeId>> outputs;
    for (int64_t step = 0; step < length.constant(); ++step) {
      Values arguments = carried;
      for (NodeId row : rows)
        arguments.push_back(fresh(c_.b.squeeze(c_.b.slice(row, 0, step, 1), 0)));
      Values rest = group(2);
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      Values results = body(*bodies_[0], arguments);
      if (results.size() != names_.size()) {
        throw Refusal{Code::kCorrupt, "its graph gives another number of results"};
      }
      outputs.resize(results.size() - carried.size());
      for (size_t k = carried.size(); k < results.size(); ++k) {
        outputs[k - carried.size()].push_back(c_.b.unsqueeze(c_.read_value(results[k]), 0));
      }
      carried.assign(results.begin(),
                     results.begin() + static_cast<std::ptrdiff_t>(carried.size()));
    }
    for (const auto& parts : outputs) carried.push_back(fresh(c_.b.concat(parts, 0)));
    define(carried);
  }

  // Steps as long as the condition is a constant that says so: a counter from a constant on.
  void while_loop() {
    Values carried = group(0);
    Values rest = group(1);
    for (int64_t step = 0;; ++step) {
      Values arguments = carried;
      arguments.insert(arguments.end(), rest.begin(), rest.end());
      Values test = body(*bodies_[0], arguments);
      std::optional<int64_t> holds;
      if (test.size() == 1) holds = known_integer(c_, c_.read_value(test[0]));
      if (!holds) {
        c_.refuse(
            "the data decides how many steps it takes; write as many as it may take out, and "
            "keep what counts with torch.where");
      }
      if (*holds == 0) break;
      if (step == kMaxLoopSteps) c_.refuse(cat("it takes more than ", kMaxLoopSteps, " steps"));
      carried = body(*bodies_[1], arguments);
      if (carried.size() != names_.size()) {
        throw Refusal{Code::kCorrupt, "its graph gives another number of results"};
      }
      for (Context::Value& value : carried) value = settled(value);
    }
    define(carried);
  }

  // A counter as the constant that it is by now.
  Context::Value settled(const Context::Value& value) {
    auto* tensor = std::get_if<Context::Tensor>(&value);
    if (tensor == nullptr || c_.b.rank(tensor->node) != 0) return value;
    NodeId number = c_.read_value(value);
    auto known = known_integer(c_, number);
    return known ? fresh(c_.b.scalar_int(c_.b.dtype(number), *known)) : value;
  }

  // A tensor that shares no memory.
  Context::Value fresh(NodeId value) {
    const std::string name = "a value of a loop";
    c_.define_tensor(name, value, false, -1);
    return c_.value(name);
  }

  Values body(const ExportGraph& graph, const Values& arguments) {
    std::vector<std::string> parameters;
    for (const Argument& input : graph.inputs) append_names(input, &parameters);
    if (parameters.size() != arguments.size()) {
      c_.refuse("a nested graph takes something that is no tensor");
    }
    Context::Scope inner;
    for (size_t i = 0; i < arguments.size(); ++i) inner[parameters[i]] = arguments[i];
    Context::Scope saved = c_.take_scope();
    c_.restore_scope(std::move(inner));
    common::Status done = translate_(graph);
    inner = c_.take_scope();
    c_.restore_scope(std::move(saved));
    if (!done.ok()) throw Refusal{done.error().code, done.error().message};
    c_.begin(outer_, node_);
    std::vector<std::string> names;
    for (const Argument& output : graph.outputs) append_names(output, &names);
    Values results;
    for (const std::string& name : names) {
      auto result = inner.find(name);
      if (result == inner.end()) throw Refusal{Code::kCorrupt, "a result is missing"};
      results.push_back(result->second);
    }
    return results;
  }

  Context& c_;
  const ExportGraph& outer_;
  const ExportNode& node_;
  const std::function<common::Status(const ExportGraph&)>& translate_;
  std::vector<const ExportGraph*> bodies_;
  std::vector<std::vector<std::string>> groups_;  // names in each argument after the graphs
  std::vector<std::string> names_;                // of the results
};

}  // namespace

common::Error refusal_of(const ExportNode& node, Code code, std::string_view why) {
  std::string where = operator_text(node);
  if (why.empty()) {
    return {code, cat("operator ", where,
                      ": not supported; call run_decompositions() on the "
                      "exported program, or replace the operator")};
  }
  return {code, cat("operator ", where, ": ", why)};
}

bool has_nested_graph(const ExportNode& node) {
  for (const NamedArgument& input : node.inputs) {
    if (std::holds_alternative<GraphArgument>(input.value)) return true;
  }
  return false;
}

common::Status translate_nested(
    Context& context, const ExportGraph& outer, const ExportNode& node,
    const std::function<common::Status(const ExportGraph&)>& translate) {
  try {
    Nested(context, outer, node, translate).run();
  } catch (const Refusal& refused) {
    // What a nested graph's own node refuses names that node already.
    bool named = refused.message.starts_with("operator ");
    if (named) return common::Error{refused.code, cat(node.target, ": ", refused.message)};
    return refusal_of(node, refused.code, refused.message);
  }
  return {};
}

}  // namespace clients
