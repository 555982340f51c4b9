// lfarm man: the manual's pages, from the commands' descriptions, and of the farm's programs from
// their help. Packages are made with it.
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "clients/cli/base/child_stage.h"
#include "clients/cli/base/commands.h"
#include "clients/cli/base/report.h"
#include "clients/cli/program_help.h"
#include "common/base/bytes.h"
#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/wire/codec.h"

namespace clients {
namespace {

using common::cat;
using common::Status;

// Programs that lie beside this one and have pages of their own.
constexpr std::array<const char*, 2> kPrograms = {"lfarm-coordinator", "lfarm-worker"};

struct ManOptions {
  std::string folder;
  std::vector<CommandText> commands;
};

// Text as troff takes it: nothing in it is a request or an escape.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool begins_line = out.empty() || out.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_name(const CommandText& command) {
  std::string name = cat("lfarm-", command.name);
  for (char& c : name) c = c == ' ' ? '-' : c;
  return name;
}

std::string first_line(std::string_view what) {
  std::string text(what.substr(0, what.find(". ")));
  for (char& c : text) c = c == '\n' ? ' ' : c;
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string heading_of(const std::string& name, const std::string& what) {
  return cat(".TH \"", name, "\" 1 \"\" \"", common::build_name(),
             "\" \"User Commands\"\n.SH NAME\n", plain(name), " \\- ", plain(first_line(what)),
             "\n");
}

// `spelt`: the program and the command as one types them.
std::string usage_of(const std::string& spelt, const CommandText& command) {
  std::string usage = cat(".SH SYNOPSIS\n.B ", plain(spelt), "\n");
  bool has_options = false;
  for (const OptionText& option : command.options) has_options |= !option.is_positional;
  if (has_options) usage += "[\\fIOPTIONS\\fR]\n";
  for (const OptionText& option : command.options) {
    if (option.is_positional) usage += cat("\\fI", plain(option.name), "\\fR\n");
  }
  return usage;
}

std::string option_text(const OptionText& option) {
  std::string type = option.type.empty() ? "" : cat(" \\fI", plain(option.type), "\\fR");
  return cat(".TP\n\\fB", plain(option.name), "\\fR", type, "\n", plain(option.what), "\n");
}

// Options by heading, in the order in which headings come.
std::string options_text(const CommandText& command) {
  std::vector<std::string> headings;
  for (const OptionText& option : command.options) {
    bool is_known = false;
    for (const std::string& heading : headings) is_known |= heading == option.heading;
    if (!is_known) headings.push_back(option.heading);
  }
  std::string text;
  for (const std::string& heading : headings) {
    text += cat(".SH \"", plain(heading), "\"\n");
    for (const OptionText& option : command.options) {
      if (option.heading == heading) text += option_text(option);
    }
  }
  return text;
}

std::string page_of(const std::string& name, const std::string& spelt, const CommandText& command) {
  return cat(heading_of(name, command.what), usage_of(spelt, command), ".SH DESCRIPTION\n",
             plain(command.what), "\n", options_text(command), ".SH \"SEE ALSO\"\n.BR lfarm (1)\n");
}

std::string main_page(const std::vector<CommandText>& commands) {
  constexpr const char* kWhat = "compiles PyTorch models on a farm and runs what it finds";
  std::string page =
      cat(heading_of("lfarm", kWhat),
          ".SH SYNOPSIS\n.B lfarm\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
  for (const CommandText& command : commands) {
    if (command.is_group) continue;
    page += cat(".TP\n\\fB", plain(command.name), "\\fR\n", plain(first_line(command.what)),
                ". See\n.BR ", plain(page_name(command)), " (1).\n");
  }
  page += ".SH \"SEE ALSO\"\n";
  for (const char* program : kPrograms) {
    page += cat(".BR ", plain(program), " (1)",
                std::string_view(program) == kPrograms.back() ? "\n" : ",\n");
  }
  return page;
}

Status write_page(const std::string& folder, const std::string& name, const std::string& text) {
  return common::write_file_atomic(cat(folder, "/", name, ".1"), common::as_bytes(text));
}

Status write_manual(const ManOptions& options) {
  LFARM_RETURN_IF_ERROR(common::make_directories(options.folder));
  LFARM_RETURN_IF_ERROR(write_page(options.folder, "lfarm", main_page(options.commands)));
  for (const CommandText& command : options.commands) {
    if (command.is_group) continue;
    std::string page = page_of(page_name(command), cat("lfarm ", command.name), command);
    LFARM_RETURN_IF_ERROR(write_page(options.folder, page_name(command), page));
  }
  for (const char* program : kPrograms) {
    LFARM_ASSIGN_OR_RETURN(std::string help, run_stage({program, "--help"}, {}));
    std::string page = page_of(program, program, command_of_help(program, help));
    LFARM_RETURN_IF_ERROR(write_page(options.folder, program, page));
  }
  return {};
}

}  // namespace

void declare_man(CommandLine* line) {
  auto options = std::make_shared<ManOptions>();
  Command command = line->add("man", "Writes the manual's pages, one for each command.",
                              [options] { return exit_code_of(write_manual(*options)); });
  command.value("folder", &options->folder, "DIR", "Where the pages are written").required();
  command.when_read([options, line] { options->commands = line->texts(); });
  command.hide();
}

}  // namespace clients
