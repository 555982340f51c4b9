// Compares a text with a file of this tree; LFARM_UPDATE_GOLDEN=1 rewrites the file instead.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace golden {

// `path` below the source tree.
inline void compare(const std::string& text, const std::string& path) {
  std::string file = std::string(LFARM_SOURCE_DIR) + "/" + path;
  if (std::getenv("LFARM_UPDATE_GOLDEN") != nullptr) {
    std::ofstream out(file);
    out << text;
    ASSERT_TRUE(out.flush()) << "cannot write " << file;
    return;
  }
  std::ifstream in(file);
  ASSERT_TRUE(in.is_open()) << "cannot read " << file;
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(text, expected.str())
      << "if the change is wanted: run this test with LFARM_UPDATE_GOLDEN=1";
}

}  // namespace golden
