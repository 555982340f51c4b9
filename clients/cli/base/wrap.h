// Text for people in lines that fit their terminal.
#pragma once

#include <string>
#include <string_view>

namespace clients {

// The columns that a line on `fd` may take: the terminal's, less the last; 79 where it is none.
size_t terminal_width(int fd);

// The text's words in lines of at most `width` columns, but for words that are longer. Lines after
// the first are indented by `indent`, which the caller has written before the first. A line of the
// text that ends with a full stop stays a line's end, other ends of lines are spaces.
std::string wrapped(std::string_view text, size_t indent, size_t width);

}  // namespace clients
