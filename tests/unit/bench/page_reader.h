// Reads a report's page as strictly as it is written.
#pragma once

#include <string>
#include <vector>

namespace clients {

// A small reader of what the page may hold: tags with quoted attributes, texts, one style sheet.
// Checks that elements nest, and gives the names of all elements and attributes.
struct Seen {
  std::vector<std::string> elements, attributes;
  std::string text;
  bool nests = true;
};
inline Seen read_page(const std::string& page) {
  Seen seen;
  std::vector<std::string> open;
  for (size_t at = 0; at < page.size();) {
    if (page[at] != '<') {
      seen.text += page[at++];
      continue;
    }
    size_t end = at + 1;
    bool quoted = false;
    for (; end < page.size() && (quoted || page[end] != '>'); ++end) {
      if (page[end] == '"') quoted = !quoted;
    }
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag[0] == '!') continue;
    if (tag[0] == '/') {
      seen.nests = seen.nests && !open.empty() && open.back() == tag.substr(1);
      if (!open.empty()) open.pop_back();
      continue;
    }
    std::string name = tag.substr(0, tag.find(' '));
    seen.elements.push_back(name);
    for (size_t space = tag.find(' '); space != std::string::npos;) {
      size_t equals = tag.find("=\"", space);
      if (equals == std::string::npos) break;
      seen.attributes.push_back(tag.substr(space + 1, equals - space - 1));
      space = tag.find(' ', tag.find('"', equals + 2));
    }
    if (name != "meta" && name != "br" && name != "input") open.push_back(name);
  }
  seen.nests = seen.nests && open.empty();
  return seen;
}

}  // namespace clients
