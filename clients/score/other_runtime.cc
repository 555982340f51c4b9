#include "clients/score/other_runtime.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/records/record.h"

namespace clients {

using common::cat;
using common::invalid_input;
using common::Result;
using common::Status;
using Json = nlohmann::json;

namespace {

constexpr size_t kOperatorsMax = 100'000;

std::optional<double> number_in(const Json& object, const char* word) {
  auto found = object.find(word);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text_in(const Json& object, const char* word) {
  auto found = object.find(word);
  return found != object.end() && found->is_string()
             ? common::record_text(found->get<std::string>())
             : "";
}

OtherRuntime runtime_of(std::string name, const std::map<std::string, double>& ms, double runs) {
  OtherRuntime other;
  other.name = std::move(name);
  for (const auto& [op, sum] : ms) other.operators.push_back({op, sum / runs});
  return other;
}

Result<OtherRuntime> parse_own(const Json& json) {
  for (const auto& [word, value] : json.items()) {
    if (word != "runtime" && word != "runs" && word != "operators" && word != "launches" &&
        word != "total_ms") {
      return invalid_input(cat("\"", common::record_text(word), "\" is no word of a profile"));
    }
  }
  std::string name = text_in(json, "runtime");
  if (name.empty()) return invalid_input("it does not name its \"runtime\"");
  double runs = json.contains("runs") ? number_in(json, "runs").value_or(0) : 1;
  if (runs < 1) return invalid_input("\"runs\" is no number from 1");
  auto operators = json.find("operators");
  if (operators == json.end() || !operators->is_array() || operators->size() > kOperatorsMax) {
    return invalid_input("\"operators\" is no list");
  }
  std::map<std::string, double> ms;
  for (size_t k = 0; k < operators->size(); ++k) {
    const Json& one = (*operators)[k];
    std::string op = one.is_object() ? text_in(one, "name") : "";
    auto time = one.is_object() ? number_in(one, "ms") : std::nullopt;
    if (op.empty() || !time || *time < 0) {
      return invalid_input(cat("operator ", k + 1, " has no name or no \"ms\" from 0"));
    }
    ms[op] += *time;
  }
  OtherRuntime other = runtime_of(name, ms, runs);
  for (const auto& [word, sum] :
       {std::pair{"launches", &other.launches}, std::pair{"total_ms", &other.run_ms}}) {
    if (!json.contains(word)) continue;
    double value = number_in(json, word).value_or(-1);
    if (value < 0) return invalid_input(cat("\"", word, "\" is no number from 0"));
    *sum = value / runs;
  }
  return other;
}

// ---- Traces ------------------------------------------------------------------------------------

struct Span {
  double begin = 0, end = 0;
  std::string name;
};

// What lies within another of the same thread counts for itself alone. Returns how many hold no
// other.
size_t add_own_times(std::vector<Span> spans, std::map<std::string, double>* us) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<const Span*> around;
  size_t leaves = spans.size();
  for (const Span& span : spans) {
    while (!around.empty() && around.back()->end <= span.begin) around.pop_back();
    if (!around.empty()) {
      const Span* parent = around.back();
      (*us)[parent->name] -= std::min(span.end, parent->end) - span.begin;
      // The first within another one comes right after it.
      if (parent == &span - 1) --leaves;
    }
    (*us)[span.name] += span.end - span.begin;
    around.push_back(&span);
  }
  return leaves;
}

struct TorchTrace {
  std::map<std::string, std::vector<Span>> threads;   // of operators
  std::map<std::string, std::string> operators;       // by "External id"
  std::vector<std::pair<std::string, Span>> kernels;  // of a GPU, with the "External id"
  double steps = 0, steps_us = 0;
};

std::string external_id(const Json& event) {
  auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return "";
  auto id = arguments->find("External id");
  return id != arguments->end() ? id->dump() : "";
}

TorchTrace read_torch_trace(const Json& events) {
  TorchTrace trace;
  for (const Json& event : events) {
    if (!event.is_object() || text_in(event, "ph") != "X") continue;
    std::string name = text_in(event, "name"), category = text_in(event, "cat");
    auto begin = number_in(event, "ts"), time = number_in(event, "dur");
    if (!begin || !time || *time < 0 || name.empty()) continue;
    // A GPU's trace has the steps' annotation a second time.
    if (name.rfind("ProfilerStep", 0) == 0 && category != "gpu_user_annotation") {
      ++trace.steps;
      trace.steps_us += *time;
    }
    Span span{*begin, *begin + *time, name};
    if (category == "kernel") trace.kernels.emplace_back(external_id(event), span);
    if (category != "cpu_op") continue;
    if (std::string id = external_id(event); !id.empty()) trace.operators[id] = name;
    std::string thread = event.contains("tid") ? event.at("tid").dump() : "";
    trace.threads[thread].push_back(std::move(span));
  }
  return trace;
}

Result<OtherRuntime> parse_torch_trace(const Json& events) {
  TorchTrace trace = read_torch_trace(events);
  std::map<std::string, double> ms;
  size_t launches = trace.kernels.size();
  if (trace.kernels.empty()) {
    for (auto& [thread, spans] : trace.threads) launches += add_own_times(std::move(spans), &ms);
  }
  for (const auto& [id, kernel] : trace.kernels) {
    auto found = trace.operators.find(id);
    ms[found != trace.operators.end() ? found->second : kernel.name] += kernel.end - kernel.begin;
  }
  if (ms.empty()) {
    return invalid_input("the trace holds no operator (category cpu_op) and no kernel");
  }
  for (auto& [name, time] : ms) time = std::max(0.0, time / 1e3);
  double runs = std::max(1.0, trace.steps);
  OtherRuntime other = runtime_of("torch", ms, runs);
  other.launches = static_cast<double>(launches) / runs;
  other.run_ms = trace.steps_us / 1e3 / runs;
  return other;
}

Result<OtherRuntime> parse_onnx_trace(const Json& events) {
  constexpr std::string_view kEnd = "_kernel_time";
  std::map<std::string, double> ms;
  double runs = 0, launches = 0, runs_us = 0;
  for (const Json& event : events) {
    if (!event.is_object()) continue;
    std::string name = text_in(event, "name");
    auto time = number_in(event, "dur");
    if (name == "model_run") {
      ++runs;
      runs_us += time.value_or(0);
    }
    if (text_in(event, "cat") != "Node" || !name.ends_with(kEnd) || !time || *time < 0) continue;
    auto arguments = event.find("args");
    std::string op =
        arguments != event.end() && arguments->is_object() ? text_in(*arguments, "op_name") : "";
    if (op.empty()) continue;
    ms[op] += *time / 1e3;
    ++launches;
  }
  if (ms.empty()) return invalid_input("the trace holds no operator (category Node)");
  runs = std::max(1.0, runs);
  OtherRuntime other = runtime_of("onnxruntime", ms, runs);
  other.launches = launches / runs;
  other.run_ms = runs_us / 1e3 / runs;
  return other;
}

Result<OtherRuntime> parse(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_array()) return parse_onnx_trace(json);
  if (!json.is_object()) return invalid_input("it is no JSON object or list");
  auto events = json.find("traceEvents");
  if (events == json.end()) return parse_own(json);
  if (!events->is_array()) return invalid_input("\"traceEvents\" is no list");
  return parse_torch_trace(*events);
}

// ---- Names -------------------------------------------------------------------------------------

struct Named {
  const char* operation;
  std::vector<const char*> names;
};
const std::vector<Named>& known_names() {
  static const std::vector<Named> kNames = {
      {"matmul",
       {"mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "gemm", "einsum", "fusedmatmul",
        "fusedgemm", "mkl_linear", "dot", "mv"}},
      {"attention",
       {"scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_attention_math", "attention", "multiheadattention",
        "groupqueryattention"}},
      {"softmax", {"softmax", "_softmax", "log_softmax", "_log_softmax", "logsoftmax"}},
      {"norm",
       {"layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm", "batch_norm",
        "native_batch_norm", "group_norm", "native_group_norm", "layernormalization",
        "simplifiedlayernormalization", "skiplayernormalization", "batchnormalization",
        "skipsimplifiedlayernormalization", "rmsnormalization"}},
      {"reduce",
       {"sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "argmax", "argmin",
        "reducesum", "reducemean", "reducemax", "reducemin"}},
      {"gather", {"gather", "embedding", "index", "index_select", "take", "gathernd"}},
      {"scatter",
       {"scatter", "scatter_add", "index_put", "_index_put_impl_", "index_add", "scatternd"}},
      {"sort", {"sort", "topk", "argsort"}},
      {"scan", {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"}},
      {"elementwise",
       {"add",       "sub",      "mul",      "div",     "neg",       "exp",  "log",    "sqrt",
        "rsqrt",     "pow",      "tanh",     "sigmoid", "relu",      "gelu", "silu",   "erf",
        "where",     "clamp",    "cat",      "copy_",   "to",        "abs",  "sin",    "cos",
        "_to_copy",  "fastgelu", "biasgelu", "mish",    "hardswish", "cast", "concat", "reciprocal",
        "quickgelu", "fill_",    "add_",     "mul_"}}};
  return kNames;
}

}  // namespace

std::string operation_name(const std::string& name) {
  std::string plain = name;
  if (size_t colons = plain.rfind("::"); colons != std::string::npos) plain.erase(0, colons + 2);
  std::transform(plain.begin(), plain.end(), plain.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Named& named : known_names()) {
    for (const char* known : named.names) {
      if (plain == known) return named.operation;
    }
  }
  return plain;
}

Result<OtherRuntime> parse_other_runtime(std::string_view text, const std::string& name) {
  auto parsed = parse(text);
  if (parsed.ok()) return parsed;
  return invalid_input(cat(name, ": ", parsed.error().message));
}

}  // namespace clients
