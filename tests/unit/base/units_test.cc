// Quantities for people: if these fail, one time is printed in several ways.
#include "common/text/units.h"

#include <gtest/gtest.h>

#include <sstream>

#include "common/base/files.h"
#include "tests/paths/paths.h"

namespace common {
namespace {

// tests/farm/page/format_test.mjs holds the page to the same lines.
TEST(Quantities, AreTextsOfOneFormatter) {
  std::istringstream lines(read_file(paths::fixtures("/quantities.txt")).value());
  int count = 0;
  std::string what, text;
  for (double value = 0; lines >> what >> value && std::getline(lines >> std::ws, text); ++count) {
    EXPECT_EQ(what == "bytes" ? bytes_text(value) : duration_text(value), text)
        << what << " " << value;
  }
  EXPECT_GE(count, 26);
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(1e300), "forever");
}

}  // namespace
}  // namespace common
