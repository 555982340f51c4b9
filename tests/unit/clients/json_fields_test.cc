// What a farm of another version, or one that means harm, writes into its status.
#include "clients/cli/base/json_fields.h"

#include <gtest/gtest.h>

namespace clients {
namespace {

TEST(JsonFields, IntegersAreTakenAndNothingElse) {
  auto json = nlohmann::ordered_json::parse(
      R"({"count": 7, "below": -3, "most": 18446744073709551615, "huge": 1e300, "part": 2.5,
          "text": "7", "none": null, "list": [7]})");
  EXPECT_EQ(integer_in(json, "count"), 7);
  EXPECT_EQ(integer_in(json, "below"), -3);
  for (const char* name : {"most", "huge", "part", "text", "none", "list", "absent"}) {
    EXPECT_EQ(integer_in(json, name), 0) << name;
  }
  EXPECT_EQ(integer_in(nlohmann::json::parse("[1, 2]"), "count"), 0);
}

TEST(JsonFields, TextsAreShownWithoutQuotes) {
  EXPECT_EQ(text_of(nlohmann::json("a farm")), "a farm");
  EXPECT_EQ(text_of(nlohmann::json(12)), "12");
  EXPECT_EQ(text_of(nlohmann::json(nullptr)), "null");
}

}  // namespace
}  // namespace clients
