#include <charconv>
#include <cstdlib>
#include <optional>

#include "common/base/cat.h"
#include "common/ir/hlir/text.h"
#include "common/ir/hlir/text_fields.h"
#include "common/ir/hlir/verify.h"

namespace common {
namespace {

// The enumerator whose name is `name`, if there is one.
template <class E>
std::optional<E> named(std::string_view name, int count, std::string_view (*name_of)(E)) {
  for (int k = 0; k < count; ++k) {
    if (name_of(static_cast<E>(k)) == name) return static_cast<E>(k);
  }
  return std::nullopt;
}

std::optional<TensorType> parse_type(std::string_view s) {
  size_t bracket = s.find('[');
  if (bracket == std::string_view::npos || s.back() != ']') return std::nullopt;
  auto dtype = dtype_from_name(s.substr(0, bracket));
  auto shape = parse_exprs(split_list(s.substr(bracket + 1, s.size() - bracket - 2)));
  if (!dtype || !shape) return std::nullopt;
  return TensorType{*dtype, *shape};
}

std::optional<std::vector<int>> parse_ints(const Fields& fields, std::string_view key) {
  auto parts = fields.list(key);
  if (!parts) return std::nullopt;
  std::vector<int> result;
  for (std::string_view part : *parts) {
    auto value = parse_int(part);
    if (!value) return std::nullopt;
    result.push_back(static_cast<int>(*value));
  }
  return result;
}

std::optional<std::vector<Coordinate>> parse_coordinates(const Fields& fields) {
  auto parts = fields.list("at");
  if (!parts) return std::nullopt;
  std::vector<Coordinate> result;
  for (std::string_view part : *parts) {
    if (part.starts_with('@')) {
      auto slot = parse_int(part.substr(1));
      if (!slot || *slot < 0) return std::nullopt;
      result.push_back({static_cast<int>(*slot), 0});
    } else {
      auto e = parse_expr(part);
      if (!e.ok()) return std::nullopt;
      result.push_back({-1, *e});
    }
  }
  return result;
}

std::optional<Attr> parse_view(const Fields& fields, const Shape& shape) {
  View view;
  view.shape = shape;
  auto index = fields.list("index");
  auto exprs = index ? parse_exprs(*index) : std::nullopt;
  if (!exprs) return std::nullopt;
  view.index = *exprs;
  if (auto valid = fields.list("valid")) {
    for (std::string_view part : *valid) {
      size_t less = part.find(" < ");
      if (less == std::string_view::npos) return std::nullopt;
      auto value = parse_expr(part.substr(0, less));
      auto bound = parse_expr(part.substr(less + 3));
      if (!value.ok() || !bound.ok()) return std::nullopt;
      view.valid.push_back({*value, *bound});
    }
    auto fill = fields.text("fill");
    if (!fill) return std::nullopt;
    view.fill = std::strtod(std::string(*fill).c_str(), nullptr);
  }
  return ViewAttr{std::move(view)};
}

// Long because it is a table: one short case per operation.
// Fills node.op and node.attr from "reduce.sum" and the fields; false when it cannot.
bool parse_operation(std::string_view name, const Fields& f, Node& node) {
  size_t dot = name.find('.');
  std::string_view sub = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  auto op = named<Op>(name.substr(0, dot), kOpCount, op_name);
  if (!op) return false;
  node.op = *op;
  auto integer = [&](std::string_view key) { return f.integer(key); };
  auto set = [&](auto optional_attr) {
    if (optional_attr) node.attr = *optional_attr;
    return optional_attr.has_value();
  };
  switch (node.op) {
    case Op::kInput:
      if (auto p = integer("position")) node.attr = InputAttr{static_cast<int>(*p)};
      return integer("position").has_value();
    case Op::kConstant: {
      auto hex = f.text("data");
      auto data = hex ? from_hex(*hex) : std::nullopt;
      if (data) node.attr = ConstantAttr{std::make_shared<const Bytes>(std::move(*data))};
      return data.has_value();
    }
    case Op::kView:
      return set(parse_view(f, node.shape));
    case Op::kUnary:
      if (auto u = named<UnaryOp>(sub, kUnaryOpCount, unary_name)) node.attr = UnaryAttr{*u};
      return node.attr.index() != 0;
    case Op::kBinary:
      if (auto b = named<BinaryOp>(sub, kBinaryOpCount, binary_name)) node.attr = BinaryAttr{*b};
      return node.attr.index() != 0;
    case Op::kReduce: {
      auto r = named<ReduceOp>(sub, kReduceOpCount, reduce_name);
      auto axes = parse_ints(f, "axes");
      if (r && axes) node.attr = ReduceAttr{*r, *axes};
      return r && axes;
    }
    case Op::kScan: {
      auto s = named<ScanOp>(sub, kScanOpCount, scan_name);
      if (s && integer("axis")) node.attr = ScanAttr{*s, static_cast<int>(*integer("axis"))};
      return node.attr.index() != 0;
    }
    case Op::kGather: {
      auto c = parse_coordinates(f);
      if (c) node.attr = GatherAttr{*c};
      return c.has_value();
    }
    case Op::kScatter: {
      auto m = named<ScatterMode>(sub, kScatterModeCount, scatter_name);
      auto c = parse_coordinates(f);
      if (m && c) node.attr = ScatterAttr{*m, *c};
      return m && c;
    }
    case Op::kSort:
      if (!integer("axis") || !integer("descending")) return false;
      node.attr = SortAttr{static_cast<int>(*integer("axis")), *integer("descending") != 0,
                           integer("count").value_or(0)};
      return true;
    case Op::kLoop: {
      LoopAttr a;
      for (auto [key, field] : {std::pair{"carried", &a.carried},
                                {"invariant", &a.invariant},
                                {"per_iteration", &a.per_iteration},
                                {"outputs", &a.outputs}}) {
        if (!integer(key)) return false;
        *field = static_cast<int>(*integer(key));
      }
      if (!integer("trip_count")) return false;
      a.trip_count = *integer("trip_count");
      node.attr = a;
      return true;
    }
    case Op::kLoopResult:
      if (auto r = integer("result")) node.attr = LoopResultAttr{static_cast<int>(*r)};
      return node.attr.index() != 0;
    case Op::kContract: {
      auto a = parse_ints(f, "a");
      auto b = parse_ints(f, "b");
      auto out = parse_ints(f, "out");
      if (a && b && out) node.attr = ContractAttr{*a, *b, *out};
      return node.attr.index() != 0;
    }
    case Op::kSoftmax:
      if (!integer("axis") || !integer("log")) return false;
      node.attr = SoftmaxAttr{static_cast<int>(*integer("axis")), *integer("log") != 0};
      return true;
    case Op::kNorm: {
      auto epsilon = f.text("epsilon");
      if (!integer("axes") || !integer("centred") || !epsilon) return false;
      node.attr = NormAttr{static_cast<int>(*integer("axes")), *integer("centred") != 0,
                           std::strtod(std::string(*epsilon).c_str(), nullptr)};
      return true;
    }
    case Op::kFourier:
      if (!integer("imaginary") || !integer("inverse") || !integer("count")) return false;
      node.attr =
          FourierAttr{*integer("imaginary") != 0, *integer("inverse") != 0, *integer("count")};
      return true;
    case Op::kIota:
    case Op::kCast:
    case Op::kSelect:
    case Op::kPhilox:
      return true;
  }
  return false;
}

class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  std::optional<std::string_view> next() {
    while (!rest_.empty()) {
      size_t end = rest_.find('\n');
      std::string_view line = trim(rest_.substr(0, end));
      rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
      ++number_;
      if (!line.empty() && line.front() != '#') return line;
    }
    return std::nullopt;
  }
  int number() const { return number_; }

 private:
  std::string_view rest_;
  int number_ = 0;
};

class GraphParser {
 public:
  explicit GraphParser(Lines& lines) : lines_(lines) {}

  // Reads until the end of the text, or until "}" inside a loop body.
  Result<Graph> run(const std::vector<SymbolRange>* body_symbols, int depth) {
    if (depth > 8) return fail("loops are nested too deeply");
    if (body_symbols) graph_.symbols = *body_symbols;
    while (auto line = lines_.next()) {
      if (*line == "}" && body_symbols) return std::move(graph_);
      bool ok = line->starts_with('%')         ? node_line(*line, depth)
                : line->starts_with("symbol ") ? !body_symbols && symbol_line(*line)
                : line->starts_with("input ")  ? input_line(*line)
                                               : output_line(*line);
      if (nested_error_) return *nested_error_;
      if (!ok) return fail("cannot parse");
    }
    if (body_symbols) return fail("a loop body does not end");
    return std::move(graph_);
  }

 private:
  Error fail(std::string_view what) const {
    return invalid_input(cat("graph text, line ", lines_.number(), ": ", what));
  }

  bool symbol_line(std::string_view line) {  // symbol s0 2..128
    size_t space = line.find(' ', 7);
    size_t dots = line.find("..");
    if (space == std::string_view::npos || dots == std::string_view::npos) return false;
    auto low = parse_int(line.substr(space + 1, dots - space - 1));
    auto high = parse_int(line.substr(dots + 2));
    if (!low || !high) return false;
    graph_.symbols.push_back({*low, *high});
    return true;
  }

  bool input_line(std::string_view line) {  // input weight f32[2, s0] "name"
    size_t quote = line.find('"');
    if (quote == std::string_view::npos || line.back() != '"' || quote + 1 > line.size() - 1) {
      return false;
    }
    std::string name(line.substr(quote + 1, line.size() - quote - 2));
    std::string_view head = trim(line.substr(6, quote - 6));
    size_t space = head.find(' ');
    if (space == std::string_view::npos) return false;
    std::string_view kind = head.substr(0, space);
    auto type = parse_type(trim(head.substr(space)));
    if (!type) return false;
    InputKind k = kind == "weight"  ? InputKind::kWeight
                  : kind == "state" ? InputKind::kState
                                    : InputKind::kUser;
    if (k == InputKind::kUser && kind != "user") return false;
    graph_.inputs.push_back({k, type->dtype, type->shape, std::move(name)});
    return true;
  }

  std::optional<NodeId> node_reference(std::string_view s) const {
    if (!s.starts_with('%')) return std::nullopt;
    auto id = parse_int(s.substr(1));
    if (!id || *id < 0 || *id >= static_cast<int64_t>(graph_.nodes.size())) return std::nullopt;
    return static_cast<NodeId>(*id);
  }

  bool output_line(std::string_view line) {
    if (line.starts_with("output ")) {
      auto id = node_reference(line.substr(7));
      if (id) graph_.outputs.push_back({OutputKind::kUser, *id, -1});
      return id.has_value();
    }
    if (line.starts_with("check ")) return check_line(line.substr(6));
    if (!line.starts_with("mutate ")) return false;
    size_t space = line.find(' ', 7);
    if (space == std::string_view::npos) return false;
    auto input = parse_int(line.substr(7, space - 7));
    auto id = node_reference(line.substr(space + 1));
    if (!input || !id) return false;
    graph_.outputs.push_back({OutputKind::kMutate, *id, static_cast<int>(*input)});
    return true;
  }

  // check 0 %12 wraps below s0 + 3
  bool check_line(std::string_view line) {
    constexpr std::string_view kBelow = " below ", kWraps = " wraps";
    size_t space = line.find(' ');
    size_t below = line.find(kBelow);
    if (space == std::string_view::npos || below == std::string_view::npos || below < space) {
      return false;
    }
    std::string_view node = line.substr(space + 1, below - space - 1);
    bool wraps = node.ends_with(kWraps);
    if (wraps) node.remove_suffix(kWraps.size());
    auto input = parse_int(line.substr(0, space));
    auto id = node_reference(node);
    auto limit = parse_expr(line.substr(below + kBelow.size()));
    if (!input || !id || !limit.ok()) return false;
    graph_.outputs.push_back(
        {OutputKind::kCheck, *id, static_cast<int>(*input), *std::move(limit), wraps});
    return true;
  }

  // %3 = binary.add f32[2, s0] (%1 %2)
  bool node_line(std::string_view line, int depth) {
    size_t equals = line.find(" = ");
    if (equals == std::string_view::npos ||
        parse_int(line.substr(1, equals - 1)) != static_cast<int64_t>(graph_.nodes.size())) {
      return false;
    }
    bool opens_body = line.ends_with(" {");
    if (opens_body) line = trim(line.substr(0, line.size() - 2));
    size_t open = line.rfind(" (");
    if (open == std::string_view::npos || line.back() != ')') return false;
    Node node;
    std::string_view operands = line.substr(open + 2, line.size() - open - 3);
    while (!operands.empty()) {
      size_t space = operands.find(' ');
      auto id = node_reference(operands.substr(0, space));
      if (!id) return false;
      node.operands.push_back(*id);
      operands = space == std::string_view::npos ? std::string_view() : operands.substr(space + 1);
    }
    std::string_view head = line.substr(equals + 3, open - equals - 3);
    size_t space = head.find(' ');
    size_t bracket = head.find(']');
    if (space == std::string_view::npos || bracket == std::string_view::npos) return false;
    auto type = parse_type(head.substr(space + 1, bracket - space));
    auto fields = parse_fields(head.substr(bracket + 1));
    if (!type || !fields) return false;
    node.dtype = type->dtype;
    node.shape = type->shape;
    if (!parse_operation(head.substr(0, space), *fields, node)) return false;
    if (opens_body != (node.op == Op::kLoop)) return false;
    if (opens_body) {
      auto body = GraphParser(lines_).run(&graph_.symbols, depth + 1);
      if (!body.ok()) {
        nested_error_ = body.error();
        return false;
      }
      std::get<LoopAttr>(node.attr).body = std::make_shared<const Graph>(*std::move(body));
    }
    graph_.nodes.push_back(std::move(node));
    return true;
  }

  Lines& lines_;
  Graph graph_;
  std::optional<Error> nested_error_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) {
  Lines lines(text);
  LFARM_ASSIGN_OR_RETURN(Graph graph, GraphParser(lines).run(nullptr, 0));
  LFARM_RETURN_IF_ERROR(verify(graph));
  return graph;
}

}  // namespace common
