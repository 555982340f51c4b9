// Writes HTML in which no text can become markup, whatever it holds.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clients {

// & < > " ' become references.
std::string escaped(std::string_view text);

// Elements are closed by those around them at the latest. Names of elements and attributes are
// the program's own; texts and attributes' values are escaped.
class HtmlWriter {
 public:
  using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

  void open(const char* name, Attributes attributes = {});
  // Closes elements up to the innermost of this name, which must be open.
  void close(const char* name);
  void text(std::string_view text);
  // <name attributes>text</name>
  void element(const char* name, std::string_view text, Attributes attributes = {});
  // An element without content or end.
  void empty(const char* name, Attributes attributes = {});
  // A line break of the source, between blocks.
  void line();
  // What the program itself wrote: the document type and the style sheet.
  void verbatim(std::string_view text);
  // The document; all elements are closed.
  std::string take();

 private:
  void begin(const char* name, Attributes attributes);
  std::string out_;
  std::vector<const char*> open_;
};

}  // namespace clients
