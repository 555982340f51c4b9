#include "clients/cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "clients/cli/base/wrap.h"
#include "common/base/cat.h"

namespace clients {
namespace {

constexpr size_t kTextColumn = 26;

// A list of commands says of each what it does; its own help says the rest.
std::string first_sentence(const std::string& text) {
  size_t end = std::min(text.find(". "), text.find(".\n"));
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width) : width_(width) {}

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), 0, width_) + "\n\n";
  }

  // The library leaves two empty lines between groups of options.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = Formatter::make_help(app, std::move(name), mode);
    for (size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
    return text;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string text = option->get_description();
    if (!option->get_envname().empty()) text += common::cat(" (or $", option->get_envname(), ")");
    return row(make_option_name(option, is_positional) + make_option_opts(option), text);
  }

  // " FILE ... REQUIRED", or " N=10" with what it is where the user says nothing.
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() == 0) return text;
    if (!option->get_type_name().empty()) text += common::cat(" ", option->get_type_name());
    if (!option->get_default_str().empty()) text += common::cat("=", option->get_default_str());
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) text += " ...";
    if (option->get_required()) text += " REQUIRED";
    return text;
  }

  std::string make_subcommand(const CLI::App* sub) const override {
    return row(sub->get_display_name(), first_sentence(sub->get_description()));
  }

 private:
  // The text begins below a name that is too long for its column.
  std::string row(const std::string& name, const std::string& text) const {
    std::string line = common::cat("  ", name);
    if (line.size() + 2 > kTextColumn) {
      line += '\n';
      line.append(kTextColumn, ' ');
    } else {
      line.resize(kTextColumn, ' ');
    }
    return line + wrapped(text, kTextColumn, width_) + "\n";
  }

  size_t width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter(size_t width) {
  return std::make_shared<HelpFormatter>(width);
}

}  // namespace clients
