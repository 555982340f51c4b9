#include "clients/cli/models/case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "clients/cli/models/npy.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using common::HostTensor;
using common::Result;
using common::Status;

std::string numbered(const std::string& folder, size_t number) {
  return cat(folder, "/", number, ".npy");
}

std::string position_text(const std::vector<int64_t>& sizes, int64_t element) {
  std::string text;
  for (size_t k = sizes.size(); k-- > 0;) {
    text = cat(element % sizes[k], text.empty() ? "" : ", ", text);
    element /= sizes[k];
  }
  return "[" + text + "]";
}

bool equal_within(double actual, double expected, const Tolerance& tolerance) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) == std::isnan(expected);
  if (actual == expected) return true;
  if (std::isinf(actual) || std::isinf(expected)) return false;
  return std::abs(actual - expected) <= tolerance.atol + tolerance.rtol * std::abs(expected);
}

// The case's tolerance, and for outputs of PyTorch that are further than that from exact ones their
// distance, as the exporter measured it.
struct CaseTolerance : Tolerance {
  std::vector<double> inexact;  // by output; may be shorter

  Tolerance of_output(size_t k) const {
    return {rtol, k < inexact.size() ? std::max(atol, inexact[k]) : atol};
  }
};

Result<CaseTolerance> read_tolerance(const std::string& folder) {
  std::string path = folder + "/meta.json";
  LFARM_ASSIGN_OR_RETURN(std::string text, common::read_file(path));
  try {
    auto meta = nlohmann::json::parse(text);
    const auto& given = meta.at("tolerance");
    CaseTolerance out{{given.at("rtol").get<double>(), given.at("atol").get<double>()}, {}};
    if (meta.contains("inexact")) out.inexact = meta["inexact"].get<std::vector<double>>();
    return out;
  } catch (const std::exception& error) {
    return common::invalid_input(cat(path, " gives no tolerance: ", error.what()));
  }
}

// Folders "1", "2", ... inside `folder`, in numeric order; none when it is missing.
std::vector<std::string> numbered_folders(const std::string& folder) {
  std::vector<std::string> found;
  for (int k = 1;; ++k) {
    std::string path = cat(folder, "/", k);
    if (!std::filesystem::is_directory(path)) return found;
    found.push_back(path);
  }
}

Status failed(std::string message) {
  return common::Error{common::Code::kVerification, std::move(message)};
}

Status compare_outputs(const Model& model, const std::vector<HostTensor>& inputs,
                       const CallResult& result, const std::string& folder,
                       const CaseTolerance& tolerance, std::optional<common::OutputErrors>* error) {
  size_t file = 0;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (!result.outputs[i]) continue;
    const HostTensor& actual = *result.outputs[i];
    const Tolerance own = tolerance.of_output(file);
    LFARM_ASSIGN_OR_RETURN(HostTensor expected, read_npy(numbered(folder, file++), actual.dtype(),
                                                         model.user_outputs[i].complex));
    const auto& order = model.user_outputs[i].order;
    auto what = order ? order_difference(actual, expected, inputs[order->user_input], order->axis)
                      : difference(actual, expected, own);
    if (what) return failed(cat("output ", i, ": ", *what));
    if (error != nullptr) add_error(actual, expected, error);
  }
  if (std::filesystem::exists(numbered(folder, file))) {
    return failed(cat("the model gives ", file, " outputs, ", folder, " expects more"));
  }
  return {};
}

// What the model must leave in the inputs that it writes to.
Status compare_after(const Model& model, const CallResult& result, const std::string& folder,
                     const Tolerance& tolerance) {
  size_t file = 0;
  for (size_t i = 0; i < model.user_inputs.size(); ++i) {
    if (model.user_inputs[i] < 0) continue;
    std::string path = numbered(folder, file++);
    if (!std::filesystem::exists(path)) continue;
    auto found = std::find_if(result.mutated.begin(), result.mutated.end(),
                              [i](const auto& m) { return m.first == static_cast<int>(i); });
    if (found == result.mutated.end()) return failed(cat("input ", i, " is not written to"));
    LFARM_ASSIGN_OR_RETURN(HostTensor expected,
                           read_npy(path, found->second.dtype(), model.user_input_is_complex[i]));
    if (auto what = difference(found->second, expected, tolerance)) {
      return failed(cat("input ", i, " after the call: ", *what));
    }
  }
  return {};
}

Status check_call(const Model& model, Instance* instance, const std::string& folder,
                  const CaseTolerance& tolerance,
                  std::optional<common::OutputErrors>* error = nullptr) {
  LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, read_inputs(model, folder + "/inputs"));
  LFARM_ASSIGN_OR_RETURN(CallResult result, instance->call(inputs));
  LFARM_RETURN_IF_ERROR(
      compare_outputs(model, inputs, result, folder + "/outputs", tolerance, error));
  return compare_after(model, result, folder + "/after", tolerance);
}

// The same once more on a fresh instance, and how long it takes on another.
Result<CaseMeasurement> measure_call(const Model& model, const InstanceFactory& make_instance,
                                     const std::string& folder, const CaseTolerance& tolerance) {
  LFARM_ASSIGN_OR_RETURN(auto instance, make_instance());
  std::optional<common::OutputErrors> error;
  LFARM_RETURN_IF_ERROR(check_call(model, instance.get(), folder, tolerance, &error));
  LFARM_ASSIGN_OR_RETURN(std::vector<HostTensor> inputs, read_inputs(model, folder + "/inputs"));
  LFARM_ASSIGN_OR_RETURN(instance, make_instance());
  LFARM_ASSIGN_OR_RETURN(CaseMeasurement measured, measure_calls(model, instance.get(), inputs));
  measured.error = error;
  return measured;
}

Status in_part(const Status& status, const std::string& part) {
  if (status.ok()) return {};
  return common::Error{status.error().code, cat(part, ": ", status.error().message)};
}

Status check_case(const std::string& folder, const InstanceMaker& maker,
                  std::vector<CaseMeasurement>* measured) {
  LFARM_ASSIGN_OR_RETURN(CaseTolerance tolerance, read_tolerance(folder));
  LFARM_ASSIGN_OR_RETURN(Model loaded, load_model(folder + "/model.pt2"));
  auto model = std::make_shared<const Model>(std::move(loaded));
  LFARM_ASSIGN_OR_RETURN(InstanceFactory make_instance, maker(model));
  LFARM_ASSIGN_OR_RETURN(auto instance, make_instance());
  LFARM_RETURN_IF_ERROR(check_call(*model, instance.get(), folder, tolerance));
  int number = 0;
  for (const std::string& step : numbered_folders(folder + "/steps")) {
    LFARM_RETURN_IF_ERROR(
        in_part(check_call(*model, instance.get(), step, tolerance), cat("step ", ++number)));
  }
  number = 0;
  for (const std::string& size : numbered_folders(folder + "/sizes")) {
    LFARM_ASSIGN_OR_RETURN(auto fresh, make_instance());
    LFARM_RETURN_IF_ERROR(
        in_part(check_call(*model, fresh.get(), size, tolerance), cat("size ", ++number)));
  }
  if (measured == nullptr) return {};
  std::vector<std::string> parts = numbered_folders(folder + "/sizes");
  parts.insert(parts.begin(), folder);
  for (const std::string& part : parts) {
    LFARM_ASSIGN_OR_RETURN(CaseMeasurement one,
                           measure_call(*model, make_instance, part, tolerance));
    measured->push_back(std::move(one));
  }
  return {};
}

// "operator aten.foo.default (node 'x') ...: ..." -> "aten.foo.default"; other texts stay.
std::string operator_of(const std::string& message) {
  constexpr std::string_view kPrefix = "operator ";
  size_t at = message.find(kPrefix);
  if (at == std::string::npos) return message;
  size_t begin = at + kPrefix.size();
  size_t end = message.find_first_of(" :", begin);
  // ATen's names of overloads in namespaces hold colons only in pairs.
  return message.substr(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace

std::optional<std::string> difference(const HostTensor& actual, const HostTensor& expected,
                                      const Tolerance& tolerance) {
  if (actual.dtype() != expected.dtype() || actual.sizes() != expected.sizes()) {
    return cat("is ", actual.type_text(), ", expected ", expected.type_text());
  }
  bool is_float = common::is_float(actual.dtype()) || actual.dtype() == common::DType::kComplex64;
  int64_t different = 0, worst = -1;
  double worst_excess = -1;
  for (int64_t i = 0; i < actual.elements(); ++i) {
    if (is_float ? equal_within(actual.get(i), expected.get(i), tolerance)
                 : actual.get_int(i) == expected.get_int(i)) {
      continue;
    }
    ++different;
    double a = actual.get(i), b = expected.get(i);
    double excess = std::abs(a - b) - tolerance.rtol * std::abs(b);
    if (std::isnan(excess)) excess = INFINITY;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (different == 0) return std::nullopt;
  if (worst < 0) worst = 0;
  return cat(different, " of ", actual.elements(), " elements differ, most at ",
             position_text(actual.sizes(), worst), ": ", actual.get(worst), ", expected ",
             expected.get(worst));
}

std::optional<std::string> order_difference(const HostTensor& actual, const HostTensor& expected,
                                            const HostTensor& keys, int axis) {
  if (actual.sizes() != expected.sizes() || actual.sizes() != keys.sizes()) {
    return cat("is ", actual.type_text(), ", expected ", expected.type_text());
  }
  const std::vector<int64_t>& sizes = actual.sizes();
  auto k = static_cast<size_t>(axis);
  int64_t length = sizes[k];
  int64_t stride = 1;
  for (size_t i = k + 1; i < sizes.size(); ++i) stride *= sizes[i];
  for (int64_t start = 0; start < actual.elements(); ++start) {
    if (start / stride % length != 0) continue;
    std::vector<bool> seen(static_cast<size_t>(length));
    for (int64_t i = 0; i < length; ++i) {
      int64_t at = start + i * stride;
      int64_t got = actual.get_int(at);
      int64_t want = expected.get_int(at);
      bool fits =
          got >= 0 && got < length && want >= 0 && want < length && !seen[static_cast<size_t>(got)];
      if (!fits ||
          !equal_within(keys.get(start + got * stride), keys.get(start + want * stride), {0, 0})) {
        return cat("is no order of the same keys at ", position_text(sizes, at), ": ", got,
                   ", expected ", want);
      }
      seen[static_cast<size_t>(got)] = true;
    }
  }
  return std::nullopt;
}

Result<std::vector<HostTensor>> read_inputs(const Model& model, const std::string& folder) {
  std::vector<HostTensor> inputs;
  size_t file = 0;
  for (size_t i = 0; i < model.user_inputs.size(); ++i) {
    int position = model.user_inputs[i];
    if (position < 0) {
      inputs.emplace_back();
      continue;
    }
    const auto& declared = model.graph.inputs[static_cast<size_t>(position)];
    LFARM_ASSIGN_OR_RETURN(HostTensor tensor, read_npy(numbered(folder, file++), declared.dtype,
                                                       model.user_input_is_complex[i]));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Status write_results(const Model& model, const CallResult& result, const std::string& folder) {
  LFARM_RETURN_IF_ERROR(common::make_directories(folder));
  size_t file = 0;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    if (!result.outputs[i]) continue;
    LFARM_RETURN_IF_ERROR(
        write_npy(numbered(folder, file++), *result.outputs[i], model.user_outputs[i].complex));
  }
  if (result.mutated.empty()) return {};
  std::vector<size_t> file_of;
  size_t tensors = 0;
  for (int position : model.user_inputs) file_of.push_back(position < 0 ? 0 : tensors++);
  LFARM_RETURN_IF_ERROR(common::make_directories(folder + "/after"));
  for (const auto& [input, content] : result.mutated) {
    auto i = static_cast<size_t>(input);
    LFARM_RETURN_IF_ERROR(write_npy(numbered(folder + "/after", file_of[i]), content,
                                    model.user_input_is_complex[i]));
  }
  return {};
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kUnsupported:
      return "UNSUPPORTED";
  }
  return "FAIL";
}

std::string line_of(const CaseResult& result) {
  std::string line = cat(verdict_name(result.verdict), " ", result.name);
  return result.verdict == Verdict::kPass ? line : cat(line, ": ", result.detail);
}

std::string case_name(const std::string& folder) {
  std::filesystem::path path(folder);
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

CaseResult run_case(const std::string& folder, const InstanceMaker& maker, bool measure) {
  CaseResult result;
  result.name = case_name(folder);
  int64_t start = common::SteadyClock().now_ns();
  try {
    Status status = check_case(folder, maker, measure ? &result.measured : nullptr);
    if (status.ok()) {
      result.verdict = Verdict::kPass;
    } else if (status.error().code == common::Code::kUnsupported) {
      result.verdict = Verdict::kUnsupported;
      result.detail = operator_of(status.error().message);
    } else {
      result.detail = status.error().message;
    }
  } catch (const std::exception& error) {
    result.detail = cat("exception: ", error.what());
  }
  for (char& c : result.detail) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  result.seconds = static_cast<double>(common::SteadyClock().now_ns() - start) * 1e-9;
  return result;
}

}  // namespace clients
