#include "worker/codegen/text/support_parts.h"

#include <map>
#include <set>

namespace worker {
namespace {

using Names = std::set<std::string_view>;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

Names names_in(std::string_view text) {
  Names names;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && is_letter(text[end])) ++end;
    std::string_view word = text.substr(begin, end - begin);
    bool is_name = word.starts_with("lf_") || word.starts_with("Lf") || word.starts_with("LF_");
    if (is_name) names.insert(word);
    begin = end + 1;
  }
  return names;
}

using Owners = std::map<std::string_view, size_t>;

// The part that the name belongs to; the first where none has any of it.
size_t owner_of(std::string_view name, const Owners& owners) {
  if (auto found = owners.find(name); found != owners.end()) return found->second;
  for (size_t end = name.rfind('_'); end != std::string_view::npos && end != 0;
       end = name.rfind('_', end - 1)) {
    if (auto found = owners.find(name.substr(0, end + 1)); found != owners.end()) {
      return found->second;
    }
  }
  return 0;
}

}  // namespace

std::string needed_support(const std::vector<SupportPart>& parts, std::string_view texts) {
  std::vector<Names> names;
  Owners owners;
  std::vector<char> is_needed;
  for (size_t k = 0; k < parts.size(); ++k) {
    names.push_back(names_in(parts[k].text));
    is_needed.push_back(parts[k].is_always ? 1 : 0);
    for (std::string_view name : names[k]) owners.emplace(name, k);
  }
  for (std::string_view name : names_in(texts)) is_needed[owner_of(name, owners)] = 1;
  std::string out;
  for (size_t k = parts.size(); k-- > 0;) {
    if (!is_needed[k]) continue;
    for (std::string_view name : names[k]) is_needed[owner_of(name, owners)] = 1;
    out.insert(0, parts[k].text);
  }
  return out;
}

}  // namespace worker
