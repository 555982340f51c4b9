// Help of the farm's programs, read for the manual. If these fail, the manual lacks options.
#include "clients/cli/program_help.h"

#include <gtest/gtest.h>

namespace clients {
namespace {

TEST(ProgramHelp, IsReadAsACommandsDescription) {
  CommandText command = command_of_help("lfarm-worker",
                                        "Compiles and measures\n"
                                        "candidates.\n"
                                        "Usage: lfarm-worker [OPTIONS]\n"
                                        "\n"
                                        "Options:\n"
                                        "  -h,--help                   Print this help\n"
                                        "  --gpu INT:INT in [0 - 1023] Which of several\n"
                                        "  --slots UINT                Tasks held\n"
                                        "                              at once\n"
                                        "  --a-name-that-is-too-long-for-its-column TEXT\n"
                                        "                              What it is\n"
                                        "  --secure                    Keys also on loopback\n");
  EXPECT_EQ(command.name, "lfarm-worker");
  EXPECT_EQ(command.what, "Compiles and measures candidates.");
  ASSERT_EQ(command.options.size(), 5u);
  EXPECT_EQ(command.options[1].name, "--gpu");
  EXPECT_EQ(command.options[1].type, "INT:INT in [0 - 1023]");
  EXPECT_EQ(command.options[1].what, "Which of several");
  EXPECT_EQ(command.options[2].what, "Tasks held at once");
  EXPECT_EQ(command.options[3].name, "--a-name-that-is-too-long-for-its-column");
  EXPECT_EQ(command.options[3].what, "What it is");
  EXPECT_EQ(command.options[4].type, "");
  EXPECT_EQ(command.options[4].what, "Keys also on loopback");
}

TEST(ProgramHelp, OfNothingIsACommandWithoutOptions) {
  EXPECT_TRUE(command_of_help("x", "").options.empty());
}

}  // namespace
}  // namespace clients
