#include "common/plan/kernel_origins.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/cat.h"
#include "common/ir/expr/index.h"
#include "common/ir/llir/load_time.h"
#include "common/text/tensor_origin.h"

namespace common {
namespace {

using Words = std::set<std::string>;
using Weights = std::set<int>;  // positions among the graph's inputs

// "layers.0.q_proj" of "layers.0.q_proj.weight"; a parameter of the model itself is its own.
std::string module_of(const std::string& tensor) {
  size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? tensor : tensor.substr(0, dot);
}

// "layers.*.q_proj" of "layers.0.q_proj".
std::string without_numbers(const std::string& module) {
  std::string out;
  for (size_t begin = 0; begin <= module.size();) {
    size_t end = std::min(module.find('.', begin), module.size());
    std::string part = module.substr(begin, end - begin);
    bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    out += cat(begin == 0 ? "" : ".", is_number ? "*" : part);
    begin = end + 1;
  }
  return out;
}

std::string list_of(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += cat(text.empty() ? "" : ", ", word);
  return text;
}

std::string patterns_of(const Words& modules) {
  std::map<std::string, Words> by_pattern;
  for (const std::string& module : modules) by_pattern[without_numbers(module)].insert(module);
  std::string text;
  for (const auto& [pattern, same] : by_pattern) {
    text += cat(text.empty() ? "" : ", ", same.size() == 1 ? *same.begin() : pattern);
  }
  return text;
}

}  // namespace

std::vector<KernelOrigin> kernel_origins(const Plan& plan, const std::vector<GraphInput>& named) {
  std::vector<Weights> of_buffer(plan.buffers.size()), of_kernel(plan.kernels.size());
  auto is_named = [&](int position) {
    return at(position) < named.size() && named[at(position)].kind != InputKind::kUser &&
           !named[at(position)].name.empty();
  };
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const Buffer& buffer = plan.buffers[b];
    if (buffer.kind == BufferKind::kInput && is_named(buffer.position)) {
      of_buffer[b] = {buffer.position};
    }
  }
  std::vector<char> at_load = load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const Call& call = plan.calls[c];
    Weights read;
    for (int input : call.inputs)
      read.insert(of_buffer[at(input)].begin(), of_buffer[at(input)].end());
    of_kernel[at(call.kernel)].insert(read.begin(), read.end());
    if (!at_load[c]) continue;
    for (int output : call.outputs) of_buffer[at(output)] = read;
  }
  std::vector<KernelOrigin> origins;
  for (const Weights& weights : of_kernel) {
    Words modules, sources;
    for (int weight : weights) {
      TensorOrigin origin = parse_origin(named[at(weight)].name);
      modules.insert(module_of(origin.tensor));
      sources.insert(origin.source);
    }
    sources.erase("");
    origins.push_back({patterns_of(modules), list_of(sources)});
  }
  return origins;
}

}  // namespace common
