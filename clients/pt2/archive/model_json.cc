#include "clients/pt2/archive/model_json.h"

#include <simdjson.h>

#include <cmath>
#include <limits>

#include "clients/pt2/archive/one_line.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;
using common::corrupt;
using common::Result;
using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// Reads members of the document and remembers the first thing that was not as it should be, so
// that the readers below are plain expressions. After a failure they go on with empty values.
class Reader {
 public:
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  void fail(std::string_view what, std::string_view problem) {
    if (failure_.empty()) failure_ = cat("'", what, "' ", problem);
  }

  // The member, or nothing when it is missing or null.
  std::optional<element> optional(element parent, std::string_view key) {
    element child;
    if (parent[key].get(child) != simdjson::SUCCESS || child.is_null()) return std::nullopt;
    return child;
  }
  std::optional<element> required(element parent, std::string_view key) {
    auto child = optional(parent, key);
    if (!child) fail(key, "is missing");
    return child;
  }
  int64_t integer(element value, std::string_view what) {
    int64_t out = 0;
    if (value.get(out) != simdjson::SUCCESS) fail(what, "is not an integer");
    return out;
  }
  // Numbers beyond JSON's arrive as "Infinity", "-Infinity" and "NaN".
  double number(element value, std::string_view what) {
    double out = 0;
    std::string_view word;
    if (value.get(out) == simdjson::SUCCESS) return out;
    if (value.get(word) == simdjson::SUCCESS) {
      if (word == "Infinity") return std::numeric_limits<double>::infinity();
      if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
      if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
    }
    fail(what, "is not a number");
    return out;
  }
  bool boolean(element value, std::string_view what) {
    bool out = false;
    if (value.get(out) != simdjson::SUCCESS) fail(what, "is not a boolean");
    return out;
  }
  std::string text(element value, std::string_view what) {
    std::string_view out;
    if (value.get(out) != simdjson::SUCCESS) fail(what, "is not a string");
    return std::string(out);
  }
  std::string text_of(element parent, std::string_view key) {
    auto child = required(parent, key);
    return child ? text(*child, key) : std::string();
  }
  int64_t integer_of(element parent, std::string_view key) {
    auto child = required(parent, key);
    return child ? integer(*child, key) : 0;
  }
  array list(element value, std::string_view what) {
    array out = empty_;
    if (value.get(out) != simdjson::SUCCESS) fail(what, "is not a list");
    return out;
  }
  array list_of(element parent, std::string_view key) {
    auto child = required(parent, key);
    return child ? list(*child, key) : empty_;
  }
  // The members of an object; an empty list when it is something else.
  std::vector<std::pair<std::string_view, element>> members(element value, std::string_view what) {
    std::vector<std::pair<std::string_view, element>> out;
    object fields;
    if (value.get(fields) != simdjson::SUCCESS) {
      fail(what, "is not an object");
      return out;
    }
    for (auto field : fields) out.push_back({field.key, field.value});
    return out;
  }
  // The only member of a tagged union.
  std::pair<std::string_view, element> only_member(element value, std::string_view what) {
    auto fields = members(value, what);
    if (fields.size() == 1) return fields[0];
    fail(what, "does not have exactly one member");
    return {"", value};
  }

 private:
  static array make_empty(simdjson::dom::parser* parser) {
    return parser->parse(std::string_view("[]")).get_array().value_unsafe();
  }
  simdjson::dom::parser parser_;
  array empty_ = make_empty(&parser_);
  std::string failure_;
};

class ProgramReader {
 public:
  ExportedProgram program(element root) {
    ExportedProgram out;
    if (auto version = in_.required(root, "schema_version")) {
      out.schema_major = in_.integer_of(*version, "major");
      out.schema_minor = in_.integer_of(*version, "minor");
    }
    if (in_.failed() || out.schema_major != kSchemaMajor) return out;
    if (auto torch = in_.optional(root, "torch_version")) {
      out.torch_version = in_.text(*torch, "torch_version");
    }
    if (auto module = in_.required(root, "graph_module")) {
      if (auto body = in_.required(*module, "graph")) out.graph = graph(*body, 0);
      if (auto names = in_.required(*module, "signature")) signature(*names, &out);
    }
    if (auto ranges = in_.optional(root, "range_constraints")) {
      for (auto [symbol, range] : in_.members(*ranges, "range_constraints")) {
        out.ranges.push_back(range_constraint(symbol, range));
      }
    }
    return out;
  }

  std::vector<WeightEntry> weights(element root) {
    std::vector<WeightEntry> out;
    auto config = in_.required(root, "config");
    if (!config) return out;
    for (auto [name, entry] : in_.members(*config, "config")) {
      WeightEntry weight;
      weight.name = std::string(name);
      weight.file_name = in_.text_of(entry, "path_name");
      if (auto pickled = in_.optional(entry, "use_pickle")) {
        weight.pickled = in_.boolean(*pickled, "use_pickle");
      }
      if (auto meta = in_.optional(entry, "tensor_meta")) stored_meta(*meta, &weight.tensor);
      out.push_back(std::move(weight));
    }
    return out;
  }

  const Reader& reader() const { return in_; }

 private:
  Extent extent(element value) {
    auto [kind, body] = in_.only_member(value, "size");
    Extent out;
    if (kind == "as_int") {
      out.value = in_.integer(body, kind);
    } else if (kind == "as_expr") {
      out.expression = in_.text_of(body, "expr_str");
      if (out.expression.empty()) in_.fail("expr_str", "is empty");
      if (auto hint = in_.optional(body, "hint")) {
        if (auto number = in_.optional(*hint, "as_int")) out.hint = in_.integer(*number, "hint");
      }
    } else {
      in_.fail(kind, "is an unknown kind of size");
    }
    return out;
  }

  ScalarType scalar_type(element value) {
    // A dtype newer than this reader is an error only where something computes with it.
    return scalar_type_of_schema(in_.integer(value, "dtype")).value_or(ScalarType::kUnknown);
  }

  TensorMeta tensor_meta(element value) {
    TensorMeta out;
    if (auto dtype = in_.required(value, "dtype")) out.dtype = scalar_type(*dtype);
    for (element size : in_.list_of(value, "sizes")) out.sizes.push_back(extent(size));
    for (element stride : in_.list_of(value, "strides")) out.strides.push_back(extent(stride));
    if (auto offset = in_.optional(value, "storage_offset")) out.storage_offset = extent(*offset);
    return out;
  }

  void stored_meta(element value, StoredTensor* out) {
    TensorMeta meta = tensor_meta(value);
    out->dtype = meta.dtype;
    out->storage_offset = meta.storage_offset.value;
    bool symbolic = meta.storage_offset.is_symbolic();
    for (const Extent& size : meta.sizes) {
      out->sizes.push_back(size.value);
      symbolic |= size.is_symbolic();
    }
    for (const Extent& stride : meta.strides) {
      out->strides.push_back(stride.value);
      symbolic |= stride.is_symbolic();
    }
    if (symbolic) in_.fail("tensor_meta", "of a weight is symbolic");
  }

  SymIntArgument sym_int(element value) {
    auto [kind, body] = in_.only_member(value, "symbolic integer");
    if (kind == "as_int") return {"", in_.integer(body, kind)};
    if (kind != "as_name") in_.fail(kind, "is an unknown kind of symbolic integer");
    return {in_.text(body, kind), 0};
  }
  SymFloatArgument sym_float(element value) {
    auto [kind, body] = in_.only_member(value, "symbolic float");
    if (kind == "as_float") return {"", in_.number(body, kind)};
    if (kind != "as_name") in_.fail(kind, "is an unknown kind of symbolic float");
    return {in_.text(body, kind), 0};
  }
  SymBoolArgument sym_bool(element value) {
    auto [kind, body] = in_.only_member(value, "symbolic boolean");
    if (kind == "as_bool") return {"", in_.boolean(body, kind)};
    if (kind != "as_name") in_.fail(kind, "is an unknown kind of symbolic boolean");
    return {in_.text(body, kind), false};
  }

  // The tensor's name; empty for None.
  std::string optional_tensor(element value) {
    auto [kind, body] = in_.only_member(value, "optional tensor");
    if (kind == "as_none") return "";
    if (kind != "as_tensor") in_.fail(kind, "is an unknown kind of optional tensor");
    return in_.text_of(body, "name");
  }

  template <class Item, class Read>
  std::vector<Item> items(element value, std::string_view kind, Read read) {
    std::vector<Item> out;
    for (element item : in_.list(value, kind)) out.push_back(read(item));
    return out;
  }

  Argument argument(element value, int depth) {
    auto [kind, body] = in_.only_member(value, "argument");
    if (kind == "as_tensor") return TensorArgument{in_.text_of(body, "name")};
    if (kind == "as_none") return NoneArgument{};
    if (auto plain = plain_argument(kind, body)) return std::move(*plain);
    if (auto symbolic = symbolic_argument(kind, body)) return std::move(*symbolic);
    if (auto special = special_argument(kind, body)) return std::move(*special);
    if (kind == "as_graph") return graph_argument(body, depth);
    return UnknownArgument{std::string(kind)};
  }

  std::optional<Argument> plain_argument(std::string_view kind, element body) {
    auto read_int = [&](element item) { return in_.integer(item, kind); };
    auto read_float = [&](element item) { return in_.number(item, kind); };
    auto read_bool = [&](element item) { return in_.boolean(item, kind); };
    auto read_text = [&](element item) { return in_.text(item, kind); };
    if (kind == "as_int") return read_int(body);
    if (kind == "as_ints") return items<int64_t>(body, kind, read_int);
    if (kind == "as_float") return read_float(body);
    if (kind == "as_floats") return items<double>(body, kind, read_float);
    if (kind == "as_bool") return read_bool(body);
    if (kind == "as_bools") return items<bool>(body, kind, read_bool);
    if (kind == "as_string") return read_text(body);
    if (kind == "as_strings") return items<std::string>(body, kind, read_text);
    return std::nullopt;
  }

  std::optional<Argument> symbolic_argument(std::string_view kind, element body) {
    auto read_int = [&](element item) { return sym_int(item); };
    auto read_float = [&](element item) { return sym_float(item); };
    auto read_bool = [&](element item) { return sym_bool(item); };
    if (kind == "as_sym_int") return sym_int(body);
    if (kind == "as_sym_ints") return items<SymIntArgument>(body, kind, read_int);
    if (kind == "as_sym_float") return sym_float(body);
    if (kind == "as_sym_floats") return items<SymFloatArgument>(body, kind, read_float);
    if (kind == "as_sym_bool") return sym_bool(body);
    if (kind == "as_sym_bools") return items<SymBoolArgument>(body, kind, read_bool);
    return std::nullopt;
  }

  std::optional<Argument> special_argument(std::string_view kind, element body) {
    if (kind == "as_tensors") {
      auto read = [&](element item) { return in_.text_of(item, "name"); };
      return TensorListArgument{items<std::string>(body, kind, read)};
    }
    if (kind == "as_optional_tensors") {
      auto read = [&](element item) { return optional_tensor(item); };
      return TensorListArgument{items<std::string>(body, kind, read)};
    }
    if (kind == "as_optional_tensor") {
      std::string name = optional_tensor(body);
      if (name.empty()) return NoneArgument{};
      return TensorArgument{std::move(name)};
    }
    if (kind == "as_scalar_type") return scalar_type(body);
    if (kind == "as_layout") return LayoutArgument{in_.integer(body, kind)};
    if (kind == "as_memory_format") return MemoryFormatArgument{in_.integer(body, kind)};
    if (kind == "as_device") return DeviceArgument{in_.text_of(body, "type")};
    if (kind == "as_operator") return OperatorArgument{in_.text(body, kind)};
    if (kind == "as_custom_obj") {
      return CustomObjectArgument{in_.text_of(body, "name"), in_.text_of(body, "class_fqn")};
    }
    if (kind == "as_complex") {
      auto real = in_.required(body, "real");
      auto imaginary = in_.required(body, "imag");
      if (!real || !imaginary) return NoneArgument{};
      return ComplexArgument{in_.number(*real, "real"), in_.number(*imaginary, "imag")};
    }
    return std::nullopt;
  }

  Argument graph_argument(element value, int depth) {
    auto body = in_.required(value, "graph");
    if (depth >= kMaxGraphDepth) in_.fail("graph", "is nested too deeply");
    if (!body || in_.failed()) return NoneArgument{};
    return GraphArgument{in_.text_of(value, "name"),
                         std::make_shared<const ExportGraph>(graph(*body, depth + 1))};
  }

  ExportNode node(element value, int depth) {
    ExportNode out;
    out.target = in_.text_of(value, "target");
    if (auto name = in_.optional(value, "name")) out.name = in_.text(*name, "name");
    for (element input : in_.list_of(value, "inputs")) {
      auto body = in_.required(input, "arg");
      if (!body) break;
      out.inputs.push_back({in_.text_of(input, "name"), argument(*body, depth)});
    }
    for (element output : in_.list_of(value, "outputs")) {
      out.outputs.push_back(argument(output, depth));
    }
    if (auto metadata = in_.optional(value, "metadata")) {
      if (auto trace = in_.optional(*metadata, "stack_trace")) {
        out.stack_trace = in_.text(*trace, "stack_trace");
      }
      if (auto stack = in_.optional(*metadata, "nn_module_stack")) {
        out.module_stack = in_.text(*stack, "nn_module_stack");
      }
    }
    return out;
  }

  ExportGraph graph(element value, int depth) {
    ExportGraph out;
    for (element input : in_.list_of(value, "inputs")) out.inputs.push_back(argument(input, depth));
    for (element output : in_.list_of(value, "outputs")) {
      out.outputs.push_back(argument(output, depth));
    }
    array nodes = in_.list_of(value, "nodes");
    out.nodes.reserve(nodes.size());
    for (element item : nodes) out.nodes.push_back(node(item, depth));
    if (auto tensors = in_.required(value, "tensor_values")) {
      for (auto [name, meta] : in_.members(*tensors, "tensor_values")) {
        out.tensor_values.emplace(name, tensor_meta(meta));
      }
    }
    if (auto integers = in_.optional(value, "sym_int_values")) {
      for (auto [name, number] : in_.members(*integers, "sym_int_values")) {
        out.sym_int_values.emplace(name, extent(number));
      }
    }
    return out;
  }

  // Tensor specs hold {"name": ...} directly, user specs a whole argument.
  Argument spec_argument(element body, bool whole) {
    auto inner = in_.required(body, "arg");
    if (!inner) return NoneArgument{};
    if (whole) return argument(*inner, 0);
    return TensorArgument{in_.text_of(*inner, "name")};
  }

  InputSpec input_spec(element value) {
    auto [kind, body] = in_.only_member(value, "input spec");
    InputSpec out;
    if (kind == "user_input") return {ExportInputKind::kUser, spec_argument(body, true), "", true};
    if (kind == "parameter") {
      return {ExportInputKind::kParameter, spec_argument(body, false),
              in_.text_of(body, "parameter_name"), true};
    }
    if (kind == "buffer") {
      out = {ExportInputKind::kBuffer, spec_argument(body, false), in_.text_of(body, "buffer_name"),
             true};
      if (auto flag = in_.optional(body, "persistent")) {
        out.persistent = in_.boolean(*flag, "persistent");
      }
      return out;
    }
    if (kind == "tensor_constant") {
      return {ExportInputKind::kTensorConstant, spec_argument(body, false),
              in_.text_of(body, "tensor_constant_name"), true};
    }
    if (kind == "custom_obj") {
      return {ExportInputKind::kCustomObject, CustomObjectArgument{},
              in_.text_of(body, "custom_obj_name"), true};
    }
    if (kind == "token") return {ExportInputKind::kToken, NoneArgument{}, "", true};
    if (kind == "constant_input") {
      out.kind = ExportInputKind::kConstant;
      out.target = in_.text_of(body, "name");
      if (auto constant = in_.required(body, "value")) out.argument = argument(*constant, 0);
      return out;
    }
    in_.fail(kind, "is an unknown kind of graph input");
    return out;
  }

  OutputSpec output_spec(element value) {
    auto [kind, body] = in_.only_member(value, "output spec");
    if (kind == "user_output") return {ExportOutputKind::kUser, spec_argument(body, true), ""};
    if (kind == "loss_output") return {ExportOutputKind::kLoss, spec_argument(body, false), ""};
    if (kind == "buffer_mutation") {
      return {ExportOutputKind::kBufferMutation, spec_argument(body, false),
              in_.text_of(body, "buffer_name")};
    }
    if (kind == "parameter_mutation") {
      return {ExportOutputKind::kParameterMutation, spec_argument(body, false),
              in_.text_of(body, "parameter_name")};
    }
    if (kind == "user_input_mutation") {
      return {ExportOutputKind::kUserInputMutation, spec_argument(body, false),
              in_.text_of(body, "user_input_name")};
    }
    if (kind == "gradient_to_parameter") {
      return {ExportOutputKind::kGradient, spec_argument(body, false),
              in_.text_of(body, "parameter_name")};
    }
    if (kind == "gradient_to_user_input") {
      return {ExportOutputKind::kGradient, spec_argument(body, false),
              in_.text_of(body, "user_input_name")};
    }
    if (kind == "token") return {ExportOutputKind::kToken, NoneArgument{}, ""};
    in_.fail(kind, "is an unknown kind of graph output");
    return {};
  }

  void signature(element value, ExportedProgram* out) {
    for (element spec : in_.list_of(value, "input_specs")) out->inputs.push_back(input_spec(spec));
    for (element spec : in_.list_of(value, "output_specs")) {
      out->outputs.push_back(output_spec(spec));
    }
  }

  RangeConstraint range_constraint(std::string_view symbol, element value) {
    RangeConstraint out;
    out.symbol = std::string(symbol);
    if (auto bound = in_.optional(value, "min_val")) out.min = in_.integer(*bound, "min_val");
    if (auto bound = in_.optional(value, "max_val")) out.max = in_.integer(*bound, "max_val");
    return out;
  }

  Reader in_;
};

// Torch 2.6 writes infinities as Python prints them, which is not JSON: puts them in quotes.
std::string quote_bare_numbers(const std::string& json) {
  std::string out;
  out.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    char c = json[at];
    if (in_string && c == '\\' && at + 1 < json.size()) {
      out += c;
      out += json[++at];
      continue;
    }
    if (c == '"') in_string = !in_string;
    std::string_view rest = std::string_view(json).substr(at);
    std::string_view word;
    for (std::string_view name : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && rest.starts_with(name)) word = name;
    }
    if (word.empty()) {
      out += c;
    } else {
      out += cat('"', word, '"');
      at += word.size() - 1;
    }
  }
  return out;
}

Result<element> parse(simdjson::dom::parser* parser, const std::string& json,
                      std::string_view what) {
  element root;
  simdjson::error_code code = parser->parse(json).get(root);
  if (code != simdjson::SUCCESS) code = parser->parse(quote_bare_numbers(json)).get(root);
  if (code != simdjson::SUCCESS) {
    return corrupt(cat(what, ": ", simdjson::error_message(code), "; export the model again"));
  }
  return root;
}

Result<ExportedProgram> read_program(const std::string& json) {
  simdjson::dom::parser parser;
  LFARM_ASSIGN_OR_RETURN(element root, parse(&parser, json, "model graph"));
  ProgramReader reader;
  ExportedProgram program = reader.program(root);
  if (reader.reader().failed()) {
    return corrupt(cat("model graph: ", reader.reader().failure(), "; export the model again"));
  }
  if (program.schema_major != kSchemaMajor) {
    return common::invalid_input(cat("model graph: export schema ", program.schema_major, ".",
                                     program.schema_minor, " is not read, only ", kSchemaMajor,
                                     ".x; export the model with torch 2.6 or newer"));
  }
  LFARM_RETURN_IF_ERROR(check_program(program));
  return program;
}

Result<std::vector<WeightEntry>> read_weights_config(const std::string& json) {
  simdjson::dom::parser parser;
  LFARM_ASSIGN_OR_RETURN(element root, parse(&parser, json, "list of weights"));
  ProgramReader reader;
  std::vector<WeightEntry> weights = reader.weights(root);
  if (reader.reader().failed()) {
    return corrupt(cat("list of weights: ", reader.reader().failure()));
  }
  return weights;
}

}  // namespace

Result<ExportedProgram> parse_program(const std::string& json) {
  return one_line(read_program(json));
}

Result<std::vector<WeightEntry>> parse_weights_config(const std::string& json) {
  return one_line(read_weights_config(json));
}

}  // namespace clients
