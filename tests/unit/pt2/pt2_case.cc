#include "tests/unit/pt2/pt2_case.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "clients/pt2/translate.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/runtime/interpreter/interpreter.h"

namespace pt2_test {
namespace {

using common::cat;
using common::DType;
using common::HostTensor;
using common::Result;

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};

DType dtype_of(const std::string& code, bool bfloat16) {
  if (code == "|b1") return DType::kBool;
  if (code == "|u1") return DType::kUint8;
  if (code == "|i1") return DType::kInt8;
  if (code == "<i2") return DType::kInt16;
  if (code == "<i4") return DType::kInt32;
  if (code == "<i8") return DType::kInt64;
  if (code == "<f2") return DType::kFloat16;
  if (code == "<f4") return DType::kFloat32;
  if (code == "<f8") return DType::kFloat64;
  if (code == "<u2" && bfloat16) return DType::kBfloat16;
  return DType::kComplex64;
}

Result<HostTensor> read_npy(const std::string& path, bool bfloat16) {
  auto file = common::read_file(path);
  if (!file.ok()) return file.error();
  const std::string& text = *file;
  if (text.size() < 10 || text.compare(1, 5, "NUMPY") != 0) {
    return common::corrupt(cat(path, " is no array"));
  }
  bool wide = text[6] > 1;
  size_t length = static_cast<unsigned char>(text[8]) |
                  static_cast<size_t>(static_cast<unsigned char>(text[9])) << 8;
  if (wide) length |= static_cast<size_t>(static_cast<unsigned char>(text[10])) << 16;
  size_t start = wide ? 12 : 10;
  std::string header = text.substr(start, length);
  auto after = [&](const char* key) { return header.find(key) + std::strlen(key); };
  size_t code = header.find('\'', after("'descr':")) + 1;
  DType dtype = dtype_of(header.substr(code, header.find('\'', code) - code), bfloat16);
  bool fortran =
      header.compare(header.find_first_not_of(' ', after("'fortran_order':")), 4, "True") == 0;
  std::vector<int64_t> sizes;
  size_t at = header.find('(') + 1;
  while (header[at] != ')') {
    if (header[at] >= '0' && header[at] <= '9') {
      size_t end = at;
      sizes.push_back(std::stoll(header.substr(at), &end));
      at += end;
    } else {
      ++at;
    }
  }
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    size_t k = fortran ? i : sizes.size() - 1 - i;
    strides[k] = step;
    step *= sizes[k];
  }
  common::ByteView data = common::as_bytes(text).subspan(start + length);
  auto copied = common::contiguous_copy(dtype, sizes, strides, 0, data);
  if (!copied.ok() || dtype != DType::kComplex64) return copied;
  // Models take and give complex tensors as pairs of reals.
  sizes.push_back(2);
  return HostTensor::copy_of(DType::kFloat32, sizes, copied->bytes());
}

// The first difference beyond the tolerance; empty when there is none.
std::string difference(const HostTensor& got, const HostTensor& want, Tolerance tolerance) {
  if (got.dtype() != want.dtype() || got.sizes() != want.sizes()) {
    return cat("gives ", got.type_text(), " instead of ", want.type_text());
  }
  bool exact = !common::is_float(want.dtype());
  for (int64_t i = 0; i < want.elements(); ++i) {
    double a = got.get(i);
    double b = want.get(i);
    bool same = exact
                    ? got.get_int(i) == want.get_int(i)
                    : a == b || (std::isnan(a) && std::isnan(b)) ||
                          std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b);
    if (!same) return cat("element ", i, " is ", a, " instead of ", b);
  }
  return "";
}

class Runner {
 public:
  Runner(std::string folder, const nlohmann::json& meta, const clients::Model& model)
      : folder_(std::move(folder)), meta_(meta), model_(model) {
    tolerance_ = {meta.at("tolerance").at("rtol"), meta.at("tolerance").at("atol")};
    values_.resize(model.graph.inputs.size());
  }

  std::string bind_weights() {
    for (size_t i = 0; i < model_.weights.size(); ++i) {
      if (!model_.weights[i]) continue;
      const auto& tensor = *model_.weights[i];
      auto value = common::contiguous_copy(model_.graph.inputs[i].dtype, tensor.sizes,
                                           tensor.strides, tensor.storage_offset, tensor.storage);
      if (!value.ok()) return value.error().message;
      values_[i] = *value;
    }
    return "";
  }

  // One call on the state that earlier calls left.
  std::string call(const std::string& where) {
    for (size_t k = 0; k < model_.user_inputs.size(); ++k) {
      int position = model_.user_inputs[k];
      if (position < 0) continue;
      auto value = read(where, "inputs", k);
      if (!value.ok()) return value.error().message;
      values_[static_cast<size_t>(position)] = *value;
    }
    auto results = common::interpret(model_.graph, values_, {});
    if (!results.ok()) return results.error().message;
    for (size_t k = 0; k < results->size(); ++k) {
      const auto& output = model_.graph.outputs[k];
      if (output.kind == common::OutputKind::kMutate) {
        values_[static_cast<size_t>(output.input)] = (*results)[k];
      }
    }
    for (size_t k = 0; k < model_.user_outputs.size(); ++k) {
      int position = model_.user_outputs[k].graph_output;
      std::string problem = compare(
          where, "outputs", k, position < 0 ? nullptr : &(*results)[static_cast<size_t>(position)]);
      if (!problem.empty()) return problem;
    }
    for (size_t k = 0; k < model_.user_inputs.size(); ++k) {
      int position = model_.user_inputs[k];
      if (position < 0) continue;
      std::string problem = compare(where, "after", k, &values_[static_cast<size_t>(position)]);
      if (!problem.empty()) return problem;
    }
    return "";
  }

 private:
  Result<HostTensor> read(const std::string& where, const char* kind, size_t k) {
    const char* list = std::strcmp(kind, "outputs") == 0 ? "outputs" : "inputs";
    bool bfloat16 = k < meta_.at(list).size() && meta_.at(list)[k].contains("dtype") &&
                    meta_.at(list)[k].at("dtype") == "bfloat16";
    return read_npy(cat(folder_, where, "/", kind, "/", k, ".npy"), bfloat16);
  }

  std::string compare(const std::string& where, const char* kind, size_t k, const HostTensor* got) {
    if (!std::filesystem::exists(cat(folder_, where, "/", kind, "/", k, ".npy"))) return "";
    auto want = read(where, kind, k);
    if (!want.ok()) return want.error().message;
    if (got == nullptr) return cat(kind, " ", k, " is missing");
    std::string problem = difference(*got, *want, tolerance_);
    return problem.empty() ? "" : cat(where, " ", kind, " ", k, ": ", problem);
  }

  std::string folder_;
  const nlohmann::json& meta_;
  const clients::Model& model_;
  Tolerance tolerance_;
  std::vector<HostTensor> values_;
};

std::string run_calls(const std::string& folder, const nlohmann::json& meta,
                      const clients::Model& model) {
  Runner runner(folder, meta, model);
  std::string problem = runner.bind_weights();
  if (problem.empty()) problem = runner.call("");
  for (int k = 1; problem.empty() && std::filesystem::exists(cat(folder, "/steps/", k)); ++k) {
    problem = runner.call(cat("/steps/", k));
  }
  for (int k = 0; problem.empty() && k < 10; ++k) {
    std::string where = cat("/sizes/", k);
    if (!std::filesystem::exists(folder + where)) continue;
    Runner fresh(folder, meta, model);
    problem = fresh.bind_weights();
    if (problem.empty()) problem = fresh.call(where);
  }
  return problem;
}

}  // namespace

CaseResult run_case(const std::string& folder) {
  auto model = clients::load_model(folder + "/model.pt2");
  if (!model.ok()) {
    return {false, model.error().code == common::Code::kUnsupported, model.error().message};
  }
  auto text = common::read_file(folder + "/meta.json");
  if (!text.ok()) return {false, false, text.error().message};
  nlohmann::json meta = nlohmann::json::parse(*text);
  std::string problem = run_calls(folder, meta, *model);
  return {problem.empty(), false, problem};
}

}  // namespace pt2_test
