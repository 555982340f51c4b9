#include "clients/cli/completion_shells.h"

#include <string_view>

#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;

bool has_two_words(const CommandText& command) {
  return command.name.find(' ') != std::string::npos;
}

// A command's last word, and whether it lies directly below `before` ("" or "cache ").
bool is_below(const CommandText& command, std::string_view before, std::string* word) {
  if (!command.name.starts_with(before) || command.name.size() <= before.size()) return false;
  *word = command.name.substr(before.size());
  return word->find(' ') == std::string::npos;
}

std::string before_of(const CommandText* command) {
  return command == nullptr ? "" : command->name + " ";
}

// The first sentence in one line, without its full stop.
std::string short_text(std::string_view what) {
  std::string text(what.substr(0, what.find(". ")));
  for (char& c : text) c = c == '\n' ? ' ' : c;
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// As one word of a shell. `escape` stands for a quote within: '\'' or \'.
std::string quoted(std::string_view text, const char* escape) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string(escape) : std::string(1, c);
  return out + "'";
}

// The words that can follow "lfarm `command`": what is below it, and its options.
std::string words_after(const std::vector<CommandText>& commands, const CommandText* command) {
  std::string words, word;
  for (const CommandText& one : commands) {
    if (is_below(one, before_of(command), &word)) words += cat(word, " ");
  }
  if (command != nullptr) {
    for (const OptionText& option : command->options) {
      if (!option.is_positional) words += cat(option.name, " ");
    }
  }
  return words + "--help";
}

constexpr const char* kBashBegin =
    R"(# lfarm's completion for bash, written by 'lfarm completion bash'.
_lfarm() {
  local word=${COMP_WORDS[COMP_CWORD]} command= words=
  [ "$COMP_CWORD" -lt 2 ] || command=${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$command ${COMP_WORDS[2]}" in
)";

constexpr const char* kBashEnd = R"(  esac
  # What is neither an option nor a command is a file.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _lfarm lfarm
)";

constexpr const char* kZshBegin = R"(#compdef lfarm
# lfarm's completion for zsh, written by 'lfarm completion zsh'.
_lfarm() {
  local command=
  local -a below options
  (( CURRENT > 2 )) && command=$words[2]
  if (( CURRENT > 3 )); then
    case "$command $words[3]" in
)";

constexpr const char* kZshEnd = R"(  esac
  options+=('--help:Print this help message and exit')
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o option options
  elif (( $#below )); then
    _describe command below || _files
  else
    _files
  fi
}
if [[ $funcstack[1] == _lfarm ]]; then
  _lfarm "$@"
else
  compdef _lfarm lfarm
fi
)";

constexpr const char* kFishBegin =
    R"(# lfarm's completion for fish, written by 'lfarm completion fish'.
# Whether the words before the cursor name this command.
function __lfarm_is
  set -l words (commandline -opc)
  set -l named "$words[2]"
  switch "$words[2] $words[3]"
)";

constexpr const char* kFishEnd = R"(  end
  test "$argv[1]" = "$named"
end
)";

// 'WORD:WHAT'; a colon in the text needs a backslash.
std::string zsh_entry(const std::string& word, std::string_view what) {
  std::string text;
  for (char c : short_text(what)) text += c == ':' ? std::string("\\:") : std::string(1, c);
  return quoted(cat(word, ":", text), "'\\''");
}

std::string zsh_case(const std::vector<CommandText>& commands, const CommandText* command) {
  std::string below, options, word;
  for (const CommandText& one : commands) {
    if (is_below(one, before_of(command), &word)) {
      below += cat("\n        ", zsh_entry(word, one.what));
    }
  }
  if (command != nullptr) {
    for (const OptionText& option : command->options) {
      if (!option.is_positional) options += cat("\n        ", zsh_entry(option.name, option.what));
    }
  }
  std::string text = cat("    ", quoted(command == nullptr ? "" : command->name, "'\\''"), ")\n");
  if (!below.empty()) text += cat("      below=(", below, ")\n");
  if (!options.empty()) text += cat("      options=(", options, ")\n");
  return text + "      ;;\n";
}

std::string fish_line(const std::string& command, const std::string& arguments,
                      std::string_view what) {
  return cat("complete -c lfarm -n \"__lfarm_is '", command, "'\" ", arguments, " -d ",
             quoted(short_text(what), "\\'"), "\n");
}

std::string fish_lines(const std::vector<CommandText>& commands, const CommandText* command) {
  std::string text, word;
  std::string name = command == nullptr ? "" : command->name;
  bool takes_files = command != nullptr && !command->is_group;
  for (const CommandText& one : commands) {
    if (!is_below(one, before_of(command), &word)) continue;
    text += fish_line(name, cat(takes_files ? "-a " : "-f -a ", word), one.what);
  }
  if (command == nullptr) return text;
  for (const OptionText& option : command->options) {
    if (option.is_positional) continue;
    bool is_long = option.name.starts_with("--");
    std::string spelt = cat(is_long ? "-l " : "-s ", option.name.substr(is_long ? 2 : 1));
    text += fish_line(name, spelt + (option.type.empty() ? "" : " -r"), option.what);
  }
  return text;
}

}  // namespace

std::string bash_completion(const std::vector<CommandText>& commands) {
  std::string text = kBashBegin;
  for (const CommandText& command : commands) {
    if (!has_two_words(command)) continue;
    text += cat("      '", command.name, "') command='", command.name, "' ;;\n");
  }
  text += cat("    esac\n  fi\n  case \"$command\" in\n    '') words='",
              words_after(commands, nullptr), "' ;;\n");
  for (const CommandText& command : commands) {
    text += cat("    '", command.name, "') words='", words_after(commands, &command), "' ;;\n");
  }
  return text + kBashEnd;
}

std::string zsh_completion(const std::vector<CommandText>& commands) {
  std::string text = kZshBegin;
  for (const CommandText& command : commands) {
    if (!has_two_words(command)) continue;
    text += cat("      '", command.name, "') command='", command.name, "' ;;\n");
  }
  text += cat("    esac\n  fi\n  case $command in\n", zsh_case(commands, nullptr));
  for (const CommandText& command : commands) text += zsh_case(commands, &command);
  return text + kZshEnd;
}

std::string fish_completion(const std::vector<CommandText>& commands) {
  std::string text = kFishBegin;
  for (const CommandText& command : commands) {
    if (!has_two_words(command)) continue;
    text += cat("    case '", command.name, "'\n      set named '", command.name, "'\n");
  }
  text += cat(kFishEnd, fish_lines(commands, nullptr));
  for (const CommandText& command : commands) text += fish_lines(commands, &command);
  return text + "complete -c lfarm -l help -d 'Print this help message and exit'\n";
}

}  // namespace clients
