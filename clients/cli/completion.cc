// lfarm completion: a shell's completion of lfarm's own command line, from the commands'
// descriptions.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/completion_shells.h"

namespace clients {
namespace {

struct CompletionOptions {
  std::string shell;
  std::vector<CommandText> commands;
};

int completion(const CompletionOptions& options) {
  std::string text = options.shell == "zsh"    ? zsh_completion(options.commands)
                     : options.shell == "fish" ? fish_completion(options.commands)
                                               : bash_completion(options.commands);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kExitDone;
}

}  // namespace

void declare_completion(CommandLine* line) {
  auto options = std::make_shared<CompletionOptions>();
  Command command = line->add("completion",
                              "Prints a shell's completion of this command line: source <(lfarm "
                              "completion bash). For fish: "
                              "lfarm completion fish | source.",
                              [options] { return completion(*options); });
  command.value("shell", &options->shell, "SHELL", "The shell: bash, zsh or fish")
      .required()
      .one_of({"bash", "zsh", "fish"});
  command.when_read([options, line] { options->commands = line->texts(); });
}

}  // namespace clients
