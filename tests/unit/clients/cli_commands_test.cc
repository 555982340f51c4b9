// The commands as help tells of them: if these fail, a command is registered but nobody learns of
// it, or what is said of it is missing.
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "clients/cli/base/commands.h"
#include "clients/cli/parse.h"

namespace clients {
namespace {

struct Help {
  int exit_code = -1;
  std::string text;
  bool would_run = false;
};

Help help_of(const std::vector<std::string>& words) {
  std::vector<const char*> arguments{"lfarm"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  arguments.push_back("--help");
  testing::internal::CaptureStdout();
  ParsedCommandLine parsed =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data());
  return {parsed.exit_code, testing::internal::GetCapturedStdout(), parsed.run != nullptr};
}

// As people of other tools ask.
TEST(Commands, HelpIsAWordToo) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{}, {"submit"}, {"plan", "show"}}) {
    std::vector<const char*> asked{"lfarm", "help"};
    for (const std::string& word : words) asked.push_back(word.c_str());
    testing::internal::CaptureStdout();
    ParsedCommandLine parsed = parse_command_line(static_cast<int>(asked.size()), asked.data());
    std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(said, help_of(words).text);
    EXPECT_EQ(parsed.exit_code, 0);
  }
}

struct Listed {
  std::string name;
  std::string what;
};

// What stands below "Subcommands:", the first line of each.
std::vector<Listed> subcommands(const std::string& help) {
  std::vector<Listed> found;
  std::istringstream lines(help);
  bool below = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") {
      below = true;
    } else if (line.empty()) {
      below = false;
    } else if (below && line.substr(0, 2) == "  " && line[2] != ' ') {
      size_t end = std::min(line.find(' ', 2), line.size());
      size_t text = std::min(line.find_first_not_of(' ', end), line.size());
      found.push_back({line.substr(2, end - 2), line.substr(text)});
    }
  }
  return found;
}

// Checks a command's help and that of all below it; returns how many commands can be run.
int check_help(const std::vector<std::string>& words, const std::string& usage) {
  Help help = help_of(words);
  EXPECT_EQ(help.exit_code, 0) << usage;
  EXPECT_FALSE(help.would_run) << usage;
  EXPECT_NE(help.text.find("Usage: " + usage), std::string::npos) << help.text;
  std::vector<Listed> below = subcommands(help.text);
  bool is_command = below.empty() || help.text.find("[SUBCOMMAND]") != std::string::npos;
  int commands = is_command ? 1 : 0;
  for (const Listed& sub : below) {
    EXPECT_FALSE(sub.what.empty()) << usage << " " << sub.name << " has no description";
    std::vector<std::string> more = words;
    more.push_back(sub.name);
    commands += check_help(more, usage + " " + sub.name);
  }
  return commands;
}

#define LFARM_NAME_COMMAND(name) #name,
constexpr const char* kRegistered[] = {LFARM_COMMANDS(LFARM_NAME_COMMAND)};
#undef LFARM_NAME_COMMAND

TEST(Commands, EachIsListedWithADescriptionAndHasHelp) {
  constexpr int kHidden = 2;  // check-worker, which only `lfarm check` runs, and man
  EXPECT_EQ(check_help({}, "lfarm") + kHidden, static_cast<int>(std::size(kRegistered)));
  Help hidden = help_of({"check-worker"});
  EXPECT_EQ(hidden.exit_code, 0);
  EXPECT_NE(hidden.text.find("Usage: lfarm check-worker"), std::string::npos) << hidden.text;
}

// Tests have no terminal, so that help is made for 79 columns.
TEST(Commands, HelpFitsATerminal) {
  for (const char* command : {"up", "submit", "run", "check", "print", "doctor", "report"}) {
    std::istringstream lines(help_of({command}).text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 79u) << command << ": " << line;
    }
  }
}

TEST(Commands, CommonOptionsAreBelowTheirOwnHeadings) {
  std::string help = help_of({"submit"}).text;
  size_t own = help.find("\nOptions:"), search = help.find("\nSearch:"),
         farm = help.find("\nFarm:");
  ASSERT_NE(farm, std::string::npos) << help;
  EXPECT_LT(own, search);
  EXPECT_LT(search, farm);
  EXPECT_LT(help.find("  --json"), search) << help;
  EXPECT_LT(farm, help.find("  --farm-key")) << help;
}

TEST(Commands, GroupsAskForTheirCommand) {
  for (const CommandGroup& group : kCommandGroups) {
    const char* arguments[] = {"lfarm", group.name};
    testing::internal::CaptureStderr();
    ParsedCommandLine parsed = parse_command_line(2, arguments);
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_FALSE(parsed.run) << group.name;
    EXPECT_EQ(parsed.exit_code, 2) << group.name;
    EXPECT_NE(said.find(std::string("'lfarm ") + group.name + " --help'"), std::string::npos)
        << said;
  }
}

TEST(Commands, OfACommandAndOneBelowItTheLowerIsMeant) {
  const char* import[] = {"lfarm", "report", "import", "absent.json", "--db", "absent.db"};
  ParsedCommandLine parsed = parse_command_line(6, import);
  ASSERT_TRUE(parsed.run);
  testing::internal::CaptureStderr();
  EXPECT_EQ(parsed.run(), 2);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("absent.json"), std::string::npos) << said;
}

TEST(Commands, AreChosenWithoutBeingRun) {
  const char* arguments[] = {"lfarm", "cache", "ls", "--state", "nowhere"};
  ParsedCommandLine parsed = parse_command_line(5, arguments);
  EXPECT_TRUE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 0);
}

}  // namespace
}  // namespace clients
