#include "clients/report/drawing/html.h"

#include "common/base/check.h"

namespace clients {

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void HtmlWriter::begin(const char* name, Attributes attributes) {
  out_ += '<';
  out_ += name;
  for (const auto& [key, value] : attributes) {
    out_ += ' ';
    out_ += key;
    out_ += "=\"";
    out_ += escaped(value);
    out_ += '"';
  }
  out_ += '>';
}

void HtmlWriter::open(const char* name, Attributes attributes) {
  begin(name, attributes);
  open_.push_back(name);
}

void HtmlWriter::close(const char* name) {
  bool found = false;
  while (!found) {
    LFARM_CHECK(!open_.empty(), "an element is closed that is not open");
    found = std::string_view(open_.back()) == name;
    out_ += "</";
    out_ += open_.back();
    out_ += '>';
    open_.pop_back();
  }
}

void HtmlWriter::text(std::string_view text) { out_ += escaped(text); }

void HtmlWriter::element(const char* name, std::string_view text, Attributes attributes) {
  open(name, attributes);
  this->text(text);
  close(name);
}

void HtmlWriter::empty(const char* name, Attributes attributes) { begin(name, attributes); }

void HtmlWriter::line() { out_ += '\n'; }

void HtmlWriter::verbatim(std::string_view text) { out_ += text; }

std::string HtmlWriter::take() {
  while (!open_.empty()) close(open_.back());
  return std::move(out_);
}

}  // namespace clients
