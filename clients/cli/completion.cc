// lfarm completion: a shell's completion of lfarm's own command line, from the commands'
// descriptions.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "common/base/cat.h"

namespace clients {
namespace {

using common::cat;

struct CompletionOptions {
  std::string shell;
  std::vector<CommandText> commands;
};

// The words that can follow "lfarm `command`": what is below it, and its options.
std::string words_after(const std::vector<CommandText>& commands, const CommandText* command) {
  std::string before = command == nullptr ? "" : command->name + " ";
  std::string words;
  for (const CommandText& one : commands) {
    bool is_below = one.name.starts_with(before) &&
                    one.name.find(' ', before.size()) == std::string::npos &&
                    one.name.size() > before.size();
    if (is_below) words += cat(one.name.substr(before.size()), " ");
  }
  if (command != nullptr) {
    for (const OptionText& option : command->options) {
      if (!option.is_positional) words += cat(option.name, " ");
    }
  }
  return words + "--help";
}

constexpr const char* kBegin = R"(# lfarm's completion for bash, written by 'lfarm completion bash'.
_lfarm() {
  local word=${COMP_WORDS[COMP_CWORD]} command= words=
  [ "$COMP_CWORD" -lt 2 ] || command=${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$command ${COMP_WORDS[2]}" in
)";

constexpr const char* kEnd = R"(  esac
  # What is neither an option nor a command is a file.
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _lfarm lfarm
)";

std::string bash_text(const std::vector<CommandText>& commands) {
  std::string text = kBegin;
  for (const CommandText& command : commands) {
    if (command.name.find(' ') == std::string::npos) continue;
    text += cat("      '", command.name, "') command='", command.name, "' ;;\n");
  }
  text += cat("    esac\n  fi\n  case \"$command\" in\n    '') words='",
              words_after(commands, nullptr), "' ;;\n");
  for (const CommandText& command : commands) {
    text += cat("    '", command.name, "') words='", words_after(commands, &command), "' ;;\n");
  }
  return text + kEnd;
}

int completion(const CompletionOptions& options) {
  std::string text = bash_text(options.commands);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitDone;
}

}  // namespace

void declare_completion(CommandLine* line) {
  auto options = std::make_shared<CompletionOptions>();
  Command command = line->add(
      "completion",
      "Prints a shell's completion of this command line: source <(lfarm completion bash).",
      [options] { return completion(*options); });
  command.value("shell", &options->shell, "bash", "The shell").required().one_of({"bash"});
  command.when_read([options, line] { options->commands = line->texts(); });
}

}  // namespace clients
