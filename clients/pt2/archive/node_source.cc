#include "clients/pt2/archive/node_source.h"

#include <algorithm>

#include "common/base/cat.h"

namespace clients {

using common::cat;

std::string_view frame_outside(std::string_view trace, std::string_view unwanted) {
  std::string_view chosen;
  for (size_t at = trace.find("File \""); at != std::string_view::npos;) {
    size_t next = trace.find("File \"", at + 1);
    std::string_view frame = trace.substr(at, next - at);
    std::string_view path = frame.substr(0, frame.find(", line "));
    if (chosen.empty() || path.find(unwanted) == std::string_view::npos) chosen = frame;
    at = next;
  }
  return chosen;
}

std::string place_of(std::string_view frame) {
  size_t quote = frame.find('"', 6);
  size_t number = frame.find(", line ");
  if (frame.empty() || quote == std::string_view::npos || number == std::string_view::npos) {
    return "";
  }
  std::string_view path = frame.substr(6, quote - 6);
  std::string_view rest = frame.substr(number + 7);
  std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  std::string_view file = path.substr(path.rfind('/') + 1);
  auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (std::any_of(file.begin(), file.end(), is_control)) return "";
  return cat(file, ":", digits);
}

std::string source_place(const ExportNode& node) {
  return place_of(frame_outside(node.stack_trace, "/torch/"));
}

std::string root_class(const ExportNode& node) {
  std::string_view root = node.module_stack;
  root = root.substr(0, root.find(';'));
  std::string_view name = root.substr(root.find_last_of(",.") + 1);
  auto is_part = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  constexpr size_t kNameMax = 200;
  bool is_name = name.size() <= kNameMax && std::all_of(name.begin(), name.end(), is_part);
  return is_name ? std::string(name) : "";
}

}  // namespace clients
