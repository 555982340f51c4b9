#include "clients/cli/program_help.h"

#include <algorithm>
#include <vector>

namespace clients {
namespace {

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

void append(std::string* text, std::string_view more) {
  if (!text->empty() && !more.empty()) *text += ' ';
  *text += more;
}

// Where descriptions begin. What is longer has its description on the lines below.
constexpr size_t kTextColumn = 30;

bool is_continued(std::string_view line) {
  return line.size() > kTextColumn && line.find_first_not_of(' ') == kTextColumn;
}

// "  --gpu INT:INT in [0 - 1]     Which GPU". `next`: the line below.
OptionText option_of(std::string_view line, std::string_view next) {
  bool has_text = line.size() > kTextColumn && line[kTextColumn - 1] == ' ' &&
                  (line[kTextColumn - 2] == ' ' || !is_continued(next));
  std::string_view spelt = trimmed(line.substr(0, has_text ? kTextColumn : line.size()));
  size_t space = std::min(spelt.find(' '), spelt.size());
  OptionText option;
  option.heading = "Options";
  option.name = spelt.substr(0, space);
  option.type = trimmed(spelt.substr(space));
  if (has_text) option.what = trimmed(line.substr(kTextColumn));
  return option;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

CommandText command_of_help(const std::string& name, std::string_view help) {
  CommandText command;
  command.name = name;
  bool has_usage = false;
  std::vector<std::string_view> lines = lines_of(help);
  for (size_t k = 0; k < lines.size(); ++k) {
    has_usage |= lines[k].starts_with("Usage:");
    if (lines[k].starts_with("  -")) {
      command.options.push_back(option_of(lines[k], k + 1 < lines.size() ? lines[k + 1] : ""));
    } else if (is_continued(lines[k]) && !command.options.empty()) {
      append(&command.options.back().what, trimmed(lines[k]));
    } else if (!has_usage) {
      append(&command.what, trimmed(lines[k]));
    }
  }
  return command;
}

}  // namespace clients
