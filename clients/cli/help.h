// How help looks: two columns, wrapped to the terminal.
#pragma once

#include <memory>

namespace CLI {  // NOLINT(readability-identifier-naming): as the library calls itself
class FormatterBase;
}  // namespace CLI

namespace clients {

// `width`: columns of a line at most, but for words that are longer.
std::shared_ptr<CLI::FormatterBase> help_formatter(size_t width);

}  // namespace clients
