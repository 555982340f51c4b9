#include "clients/cli/base/wrap.h"

#include <sys/ioctl.h>

#include <algorithm>

namespace clients {

size_t terminal_width(int fd) {
  winsize size{};
  bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - size_t{1} : size_t{79};
}

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string out;
  size_t column = indent;
  bool begins_line = true;
  auto end_line = [&] {
    out += '\n';
    out.append(indent, ' ');
    column = indent;
    begins_line = true;
  };
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::string_view word = text.substr(0, end);
    if (!word.empty()) {
      if (!begins_line && column + 1 + word.size() > width) end_line();
      if (!begins_line) out += ' ';
      column += word.size() + (begins_line ? 0 : 1);
      out += word;
      begins_line = false;
    }
    bool is_end = end < text.size() && text[end] == '\n' && word.ends_with('.');
    if (is_end && end + 1 < text.size()) end_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace clients
