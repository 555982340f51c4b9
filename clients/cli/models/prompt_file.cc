#include "clients/cli/models/prompt_file.h"

#include <charconv>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "clients/cli/models/npy.h"
#include "common/base/cat.h"
#include "common/base/files.h"

namespace clients {
namespace {

using common::cat;
using common::Error;
using common::Result;
using Sequences = std::vector<std::vector<int64_t>>;

Result<std::vector<int64_t>> parse_line(std::string_view line) {
  std::vector<int64_t> ids;
  constexpr std::string_view kBetween = " \t\r,";
  while (true) {
    size_t begin = line.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return ids;
    line.remove_prefix(begin);
    std::string_view word = line.substr(0, line.find_first_of(kBetween));
    int64_t id = 0;
    auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (problem != std::errc() || end != word.data() + word.size()) {
      return common::invalid_input(cat("\"", word.substr(0, 40), "\" is no token id"));
    }
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

// Whole numbers of 64 bits; nothing for any other list.
std::optional<std::vector<int64_t>> json_ids(const nlohmann::json& list) {
  if (!list.is_array()) return std::nullopt;
  std::vector<int64_t> ids;
  for (const nlohmann::json& id : list) {
    bool is_great = id.is_number_unsigned() && id.get<uint64_t>() > INT64_MAX;
    if (!id.is_number_integer() || is_great) return std::nullopt;
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

Result<Sequences> parse_json(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  bool is_batch = json.is_array() && !json.empty() && json.front().is_array();
  Sequences out;
  for (const nlohmann::json& list : is_batch ? json : nlohmann::json::array({json})) {
    auto ids = json_ids(list);
    if (!ids) {
      return common::invalid_input("it is no JSON list of token ids, nor a list of such lists");
    }
    out.push_back(std::move(*ids));
  }
  return out;
}

Result<Sequences> from_array(common::ByteView file) {
  LFARM_ASSIGN_OR_RETURN(NpyArray array, parse_npy(file));
  auto dtype = array.item_bytes == 4 ? common::DType::kInt32 : common::DType::kInt64;
  LFARM_ASSIGN_OR_RETURN(common::HostTensor ids, tensor_from_npy(array, dtype, false));
  if (ids.sizes().empty() || ids.sizes().size() > 2) {
    return common::invalid_input(
        cat("token ids are [length] or [batch, length], not ", npy_type_text(array)));
  }
  int64_t length = ids.sizes().back();
  Sequences out(ids.sizes().size() == 2 ? static_cast<size_t>(ids.sizes()[0]) : 1);
  for (int64_t i = 0; i < ids.elements(); ++i) {
    out[static_cast<size_t>(i / length)].push_back(ids.get_int(i));
  }
  return out;
}

Result<std::string> read_text(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  return common::read_file(path);
}

}  // namespace

Result<Sequences> parse_prompts(const std::string& text) {
  if (text.starts_with("\x93NUMPY")) return from_array(common::as_bytes(text));
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') return parse_json(text);
  Sequences out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    LFARM_ASSIGN_OR_RETURN(std::vector<int64_t> ids,
                           parse_line(std::string_view(text).substr(begin, end - begin)));
    if (!ids.empty()) out.push_back(std::move(ids));
    begin = end + 1;
  }
  if (out.empty()) return common::invalid_input("there is no token id in it");
  return out;
}

Result<Sequences> read_prompts(const std::string& path) {
  LFARM_ASSIGN_OR_RETURN(std::string text, read_text(path));
  auto prompts = parse_prompts(text);
  if (prompts.ok()) return prompts;
  return Error{prompts.error().code, cat(path, ": ", prompts.error().message)};
}

}  // namespace clients
