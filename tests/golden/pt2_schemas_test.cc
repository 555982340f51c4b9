// Every overload of every operator in the table, called as PyTorch's own schemas say: if these
// fail, a model is refused, or computed wrongly, for what PyTorch calls an argument or leaves out
// of a call. tests/fixtures/make_schemas.py made the schemas, the calls and their results; what is
// refused is listed with its reason in pt2_refusals.txt.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "clients/pt2/archive/scalar_type.h"
#include "clients/pt2/archive/written_inputs.h"
#include "clients/pt2/operator_table.h"
#include "common/base/cat.h"
#include "tests/golden/golden.h"
#include "tests/paths/paths.h"
#include "tests/unit/pt2/pt2_program.h"

namespace clients {
namespace {

using common::cat;
using common::DType;
using common::HostTensor;
using nlohmann::json;

// ---- Schemas ---------------------------------------------------------------------------------

struct Schema {
  std::string target;  // "aten.add.Tensor"
  std::string text;
  std::vector<std::string> arguments;  // names
  bool has_out = false;
  bool gives_list = false;
};

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(paths::fixtures("/schemas/" + file));
  EXPECT_TRUE(in.is_open()) << file;
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)"
Schema schema_of(const std::string& line) {
  Schema out;
  out.text = line;
  size_t open = line.find('('), arrow = line.rfind(") -> ");
  std::string name = line.substr(6, open - 6);
  out.target = "aten." + name + (name.find('.') == std::string::npos ? ".default" : "");
  std::string result = line.substr(arrow + 5);
  out.gives_list = result.ends_with("[]");
  std::istringstream arguments(line.substr(open + 1, arrow - open - 1));
  bool keyword = false;
  for (std::string part; std::getline(arguments, part, ',');) {
    part.erase(0, part.find_first_not_of(' '));
    if (part == "*") keyword = true;
    std::string before = part.substr(0, part.find('='));
    size_t space = before.rfind(' ');
    if (space == std::string::npos) continue;  // "*", or the rest of a default with a comma
    out.arguments.push_back(before.substr(space + 1));
    out.has_out = out.has_out || (keyword && before.find("!)") != std::string::npos);
  }
  return out;
}

const std::map<std::string, Schema>& schemas() {
  static const std::map<std::string, Schema> all = [] {
    std::map<std::string, Schema> out;
    for (const std::string& line : lines_of("aten.txt")) {
      Schema schema = schema_of(line);
      out.emplace(schema.target, schema);
    }
    return out;
  }();
  return all;
}

std::string target_of(const std::string& schema_name) {
  return schema_of(schema_name + "() -> ()").target;
}

std::string name_of(const std::string& target) { return target.substr(5, target.rfind('.') - 5); }

// ---- Calls -----------------------------------------------------------------------------------

ScalarType type_of(const json& described) {
  return scalar_type_of_name(described.get<std::string>()).value();
}

DType dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::kInt64:
      return DType::kInt64;
    case ScalarType::kInt32:
      return DType::kInt32;
    case ScalarType::kUint8:
      return DType::kUint8;
    case ScalarType::kBool:
      return DType::kBool;
    case ScalarType::kFloat64:
      return DType::kFloat64;
    default:
      return DType::kFloat32;
  }
}

bool is_float_type(ScalarType type) {
  return type == ScalarType::kFloat32 || type == ScalarType::kFloat64 ||
         type == ScalarType::kComplex64;
}

// Element k of the call's tensor number `place`, as make_schemas.py makes it.
double element_at(const json& described, ScalarType type, int64_t k, int place) {
  std::string pattern = described.value("pattern", "");
  double drawn = static_cast<double>((k * 37 + place * 11) % 64);
  if (type == ScalarType::kBool) return static_cast<double>((k * 3 + place) % 2);
  if (!is_float_type(type)) return static_cast<double>((k + place) % 2);
  if (pattern == "unit") return drawn / 64 + 0.0078125;
  auto shape = described["shape"].get<std::vector<int64_t>>();
  if (pattern == "matrix" && shape.size() > 1) {
    int64_t columns = shape.back(), rows = shape[shape.size() - 2];
    int64_t apart = std::abs(k / columns % rows - k % columns);
    return (apart == 0 ? 4 : std::ldexp(1.0, -static_cast<int>(apart))) + place / 8.0;
  }
  return drawn / 32 - 0.984375;
}

// out= begins with zeros.
HostTensor tensor_at(const json& described, int place) {
  ScalarType type = type_of(described["tensor"]);
  auto shape = described["shape"].get<std::vector<int64_t>>();
  if (type == ScalarType::kComplex64) shape.push_back(2);
  HostTensor out = HostTensor::zeros(dtype_of(type), shape).value();
  if (described.contains("out")) return out;
  for (int64_t k = 0; k < out.elements(); ++k) out.set(k, element_at(described, type, k, place));
  return out;
}

bool draws(const Model& model) {
  return !model.weight_names.empty() && model.weight_names.back() == kRandomStateName;
}

// A call as a program of one node, with its tensors as inputs and its results as outputs.
class Call {
 public:
  explicit Call(const json& described) : target_(target_of(described["operator"])) {
    ExportNode node;
    node.target = "torch.ops." + target_;
    node.name = "node";
    for (const json& argument : described["arguments"]) {
      node.inputs.push_back({argument[0].get<std::string>(), value_of(argument[1])});
    }
    std::vector<std::string> names;
    for (const json& result : described["results"]) {
      names.push_back(cat("y", names.size()));
      program_.tensor(names.back(), result["shape"].get<std::vector<int64_t>>(),
                      type_of(result["tensor"]));
      program_.output(names.back());
    }
    if (schemas().at(target_).gives_list) {
      node.outputs.push_back(TensorListArgument{names});
    } else {
      for (const std::string& name : names) node.outputs.push_back(TensorArgument{name});
    }
    exported_ = program_.get();
    exported_.graph.nodes.push_back(std::move(node));
  }

  const std::string& target() const { return target_; }
  common::Result<Model> translated() const { return translate(exported_); }

  std::vector<HostTensor> results(const Model& model) const {
    std::vector<HostTensor> given;
    for (const common::GraphInput& input : model.graph.inputs) {
      given.push_back(HostTensor::zeros(input.dtype, {}).value());
    }
    for (size_t k = 0; k < model.user_inputs.size(); ++k) {
      if (model.user_inputs[k] >= 0) given[static_cast<size_t>(model.user_inputs[k])] = inputs_[k];
    }
    if (draws(model)) given.back() = HostTensor::zeros(DType::kInt64, {2}).value();
    std::vector<HostTensor> all = pt2_test::run(model, given), out;
    for (const UserOutput& output : model.user_outputs) {
      if (output.graph_output < static_cast<int>(all.size())) {
        out.push_back(all[static_cast<size_t>(output.graph_output)]);
      }
    }
    return out;
  }

 private:
  std::string tensor_of(const json& described) {
    std::string name = cat("x", inputs_.size());
    int place = described.contains("out") ? 0 : drawn_++;
    inputs_.push_back(tensor_at(described, place));
    program_.input(name, described["shape"].get<std::vector<int64_t>>(),
                   type_of(described["tensor"]));
    return name;
  }

  Argument value_of(const json& value) {
    if (value.is_null()) return NoneArgument{};
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer()) return value.get<int64_t>();
    if (value.is_number()) return value.get<double>();
    if (value.is_string()) return value.get<std::string>();
    if (value.is_array()) return list_of(value);
    if (value.contains("dtype")) return type_of(value["dtype"]);
    if (value.contains("device")) return DeviceArgument{value["device"].get<std::string>()};
    if (value.contains("tensor")) return TensorArgument{tensor_of(value)};
    TensorListArgument list;
    for (const json& item : value["tensors"]) list.names.push_back(tensor_of(item));
    return list;
  }

  static Argument list_of(const json& value) {
    if (!value.empty() && value[0].is_boolean()) return value.get<std::vector<bool>>();
    if (!value.empty() && value[0].is_number_float()) return value.get<std::vector<double>>();
    return value.get<std::vector<int64_t>>();
  }

  std::string target_;
  pt2_test::Program program_;
  ExportedProgram exported_;
  std::vector<HostTensor> inputs_;
  int drawn_ = 0;
};

// The rest of a refusal after the operator and its node.
std::string reason_of(const std::string& message) {
  size_t at = message.find("'): ");
  return at == std::string::npos ? message : message.substr(at + 4);
}

double number_of(const json& value) {
  if (!value.is_string()) return value.get<double>();
  return value == "nan" ? NAN : value == "inf" ? INFINITY : -INFINITY;
}

// Vectors that are known up to their sign.
bool is_up_to_sign(const std::string& target) {
  std::string name = name_of(target);
  return name.ends_with("svd") || name.ends_with("eigh");
}

void expect_result(const HostTensor& got, const json& want, bool up_to_sign) {
  ASSERT_EQ(got.elements(), static_cast<int64_t>(want["values"].size()));
  for (int64_t k = 0; k < got.elements(); ++k) {
    double wanted = number_of(want["values"][static_cast<size_t>(k)]);
    double value = got.get(k);
    if (std::isnan(wanted) && std::isnan(value)) continue;
    if (value == wanted || (up_to_sign && std::abs(std::abs(value) - std::abs(wanted)) < 1e-4)) {
      continue;
    }
    ASSERT_LE(std::abs(value - wanted), 1e-5 + 1e-4 * std::abs(wanted))
        << "element " << k << ": " << value << ", PyTorch has " << wanted;
  }
}

// What the result holds is not defined: memory as it was; or the call found asks for something that
// has no meaning (places in a sequence that is not sorted, writes to one element from two, modes
// and spacings that do not exist, magnitudes of another shape, a buffer that no forward pass made).
bool is_undefined(const std::string& target) {
  static const std::set<std::string> kMeaningless = {
      "_weight_norm",
      "log_sigmoid_backward",
      "as_strided_scatter",
      "bucketize",
      "max_pool3d_with_indices_backward",
      "_scaled_dot_product_flash_attention_for_cpu_backward",
      "gradient",
      "grid_sampler_2d",
      "grid_sampler_3d",
      "searchsorted"};
  std::string name = name_of(target);
  // PyTorch's own form with out= gives NaN for a single number.
  if (target == "aten.binary_cross_entropy.out") return true;
  return name.starts_with("empty") || name.starts_with("new_empty") || name == "resize_" ||
         kMeaningless.contains(name);
}

// Operators whose result is a number or nothing; tests/unit/pt2 has programs with them.
bool gives_numbers(const std::string& target) {
  static const std::set<std::string> kNames = {"_assert_async",
                                               "_assert_scalar",
                                               "_assert_tensor_metadata",
                                               "_local_scalar_dense",
                                               "item",
                                               "sym_constrain_range",
                                               "sym_constrain_range_for_size",
                                               "sym_is_contiguous",
                                               "sym_numel",
                                               "sym_size",
                                               "sym_storage_offset",
                                               "sym_stride"};
  return kNames.contains(name_of(target));
}

// The names of operators in the table, "add" of "aten.add"; `refused` adds those that no plan
// holds.
std::set<std::string> names_in_table(bool refused) {
  std::set<std::string> out;
  for (const auto& entry : operator_table().entries()) {
    if (!entry.name.starts_with("aten.") || (!refused && entry.family == "Refused")) continue;
    std::string name(entry.name.substr(5));
    out.insert(name.substr(0, name.find('.')));
  }
  return out;
}

TEST(Schemas, EveryOverloadIsTranslatedOrRefusedByName) {
  std::map<std::string, std::set<std::string>> refused;
  std::set<std::string> called, without_kernel;
  int translated = 0;
  for (const std::string& line : lines_of("calls.jsonl")) {
    SCOPED_TRACE(line);
    json described = json::parse(line);
    if (described.contains("unavailable")) {
      without_kernel.insert(target_of(described["operator"]));
      continue;
    }
    Call call(described);
    if (!operator_table().knows(call.target())) continue;
    called.insert(call.target());
    auto model = call.translated();
    if (!model.ok()) {
      const std::string& message = model.error().message;
      EXPECT_NE(message.find(call.target()), std::string::npos) << message;
      EXPECT_EQ(message.find("argument '"), std::string::npos) << message;
      refused[call.target()].insert(reason_of(message));
      continue;
    }
    ++translated;
    std::vector<HostTensor> results = call.results(*model);
    ASSERT_EQ(results.size(), described["results"].size());
    if (is_undefined(call.target())) continue;
    // PyTorch's CPU draws other numbers.
    if (draws(*model)) continue;
    for (size_t k = 0; k < results.size(); ++k)
      expect_result(results[k], described["results"][k], is_up_to_sign(call.target()));
  }
  EXPECT_GT(translated, 1500);
  std::string listed;
  std::set<std::string> names = names_in_table(true);
  for (const auto& [target, schema] : schemas()) {
    if (!operator_table().knows(target)) {
      if (names.contains(name_of(target))) refused[target].insert("(no row has this overload)");
    } else if (!called.contains(target)) {
      refused[target].insert(
          without_kernel.contains(target) ? "(not tried: PyTorch runs it on GPUs alone)"
          : gives_numbers(target)         ? "(not tried here: it gives a number, or nothing)"
                                          : "(not tried: no call of it was found)");
    }
  }
  for (const auto& [target, reasons] : refused) {
    for (const std::string& reason : reasons) listed += cat(target, ": ", reason, "\n");
  }
  golden::compare(listed, "tests/golden/pt2_refusals.txt");
}

// ---- Names -----------------------------------------------------------------------------------

TEST(Schemas, EveryAliasOfAnOperatorIsKnown) {
  std::set<std::string> known = names_in_table(true);
  int checked = 0;
  for (const std::string& line : lines_of("aliases.txt")) {
    size_t space = line.find(' ');
    std::string alias = line.substr(0, space), original = line.substr(space + 1);
    if (!known.contains(original)) continue;
    ++checked;
    for (const auto& [target, schema] : schemas()) {
      std::string name = name_of(target);
      if (name == alias || name == alias + "_") {
        EXPECT_TRUE(operator_table().knows(target)) << target;
      }
    }
  }
  EXPECT_GT(checked, 45);
}

TEST(Schemas, AliasesAreOperatorsOfPyTorchWithTheOverloadsOfTheirOperator) {
  std::set<std::string> names;
  for (const auto& [target, schema] : schemas()) names.insert(name_of(target));
  std::string_view before;
  for (const OperatorAlias& alias : operator_aliases()) {
    EXPECT_LT(before, alias.name) << "the list is sorted";
    before = alias.name;
    EXPECT_TRUE(names.contains(std::string(alias.name))) << alias.name;
    EXPECT_TRUE(names.contains(std::string(alias.operator_name))) << alias.operator_name;
    std::string in_place = cat("aten.", alias.name, "_.default");
    EXPECT_EQ(canonical_target(in_place), cat("aten.", alias.operator_name, "_.default"));
  }
  EXPECT_EQ(canonical_target("aten.add.Tensor"), "aten.add.Tensor");
  EXPECT_EQ(canonical_target("_operator.add"), "_operator.add");
}

// PyTorch promises that run_decompositions() leaves no other operators.
TEST(Schemas, EveryCoreOperatorIsTranslatedOrRefusedByName) {
  std::set<std::string> known = names_in_table(true), translated = names_in_table(false), names;
  for (const std::string& line : lines_of("core.txt")) {
    std::string target = target_of(line);
    EXPECT_TRUE(operator_table().knows(target)) << target;
    names.insert(name_of(target));
  }
  EXPECT_EQ(names.size(), 164U);
  std::set<std::string> refused;
  for (const std::string& name : names) {
    std::string plain = name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
    if (!translated.contains(plain)) refused.insert(name);
  }
  for (const std::string& name : refused) EXPECT_TRUE(known.contains(name)) << name;
  EXPECT_EQ(refused, std::set<std::string>());
}

TEST(Schemas, OverloadsThatWriteIntoTheirLastArgumentsAreRecognised) {
  std::set<std::string> translated = names_in_table(false);
  for (const auto& [target, schema] : schemas()) {
    std::string original = name_of(canonical_target(target));
    if (!translated.contains(original) || is_in_place(target)) continue;
    EXPECT_EQ(has_out_arguments(target), schema.has_out) << schema.text;
  }
}

}  // namespace
}  // namespace clients
