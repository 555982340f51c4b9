#include "clients/cli/plans/kernel_modules.h"

#include <map>
#include <set>

#include "common/base/cat.h"
#include "common/ir/llir/load_time.h"

namespace clients {
namespace {

using Modules = std::set<std::string>;

size_t at(int index) { return static_cast<size_t>(index); }

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
    out += common::cat(begin == 0 ? "" : ".", is_number ? "*" : part);
    begin = end + 1;
  }
  return out;
}

std::string text_of(const Modules& modules) {
  std::map<std::string, Modules> by_pattern;
  for (const std::string& module : modules) by_pattern[without_numbers(module)].insert(module);
  std::string text;
  for (const auto& [pattern, same] : by_pattern) {
    text += common::cat(text.empty() ? "" : ", ", same.size() == 1 ? *same.begin() : pattern);
  }
  return text;
}

}  // namespace

std::vector<std::string> kernel_modules(const common::Plan& plan, const Model& model) {
  std::vector<Modules> of_buffer(plan.buffers.size()), of_kernel(plan.kernels.size());
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const common::Buffer& buffer = plan.buffers[b];
    if (buffer.kind != common::BufferKind::kInput) continue;
    const std::string& name = model.weight_names[at(buffer.position)];
    if (!name.empty()) of_buffer[b] = {module_of(name)};
  }
  std::vector<char> at_load = common::load_time_calls(plan);
  for (size_t c = 0; c < plan.calls.size(); ++c) {
    const common::Call& call = plan.calls[c];
    Modules read;
    for (int input : call.inputs)
      read.insert(of_buffer[at(input)].begin(), of_buffer[at(input)].end());
    of_kernel[at(call.kernel)].insert(read.begin(), read.end());
    if (!at_load[c]) continue;
    for (int output : call.outputs) of_buffer[at(output)] = read;
  }
  std::vector<std::string> texts;
  for (const Modules& modules : of_kernel) texts.push_back(text_of(modules));
  return texts;
}

}  // namespace clients
