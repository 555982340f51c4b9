// Lines of help: if these fail, text runs out of the terminal or is broken within words.
#include "clients/cli/base/wrap.h"

#include <gtest/gtest.h>

namespace clients {
namespace {

TEST(Wrapped, BreaksBetweenWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrapped("one two three", 0, 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrapped("one two", 2, 8), "one\n  two");
}

TEST(Wrapped, OnlyLinesThatEndASentenceStay) {
  EXPECT_EQ(wrapped("one\ntwo.\nthree", 0, 80), "one two.\nthree");
  EXPECT_EQ(wrapped("one.\n", 0, 80), "one.");
}

TEST(Wrapped, LongWordsStayWhole) { EXPECT_EQ(wrapped("a longword b", 0, 4), "a\nlongword\nb"); }

}  // namespace
}  // namespace clients
