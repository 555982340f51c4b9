// Quantities for people: if these fail, one time is printed in several ways.
#include "common/base/units.h"

#include <gtest/gtest.h>

namespace common {
namespace {

TEST(DurationText, HasThreeDigitsAndTheUnitThatSuits) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(7), "7.00 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(999.6), "1.00 us");
  EXPECT_EQ(duration_text(77'893), "77.9 us");
  EXPECT_EQ(duration_text(1'234'567), "1.23 ms");
  EXPECT_EQ(duration_text(999.6e6), "1.00 s");
  EXPECT_EQ(duration_text(7.8e9), "7.80 s");
}

TEST(BytesText, HasThreeDigitsAndTheUnitThatSuits) {
  EXPECT_EQ(bytes_text(12), "12 bytes");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(12.34 * 1024 * 1024), "12.3 MiB");
}

}  // namespace
}  // namespace common
