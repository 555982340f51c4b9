// Lists that come by pages: if these fail, a list of a farm or a state directory lacks rows, or a
// farm of another release keeps a client asking for ever.
#include "clients/cli/access/list_pages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace clients {
namespace {

using common::Result;
using Json = nlohmann::ordered_json;

// Pages "", "a", "b": the one behind the last has no "next".
Result<Json> three_pages(const std::string& after) {
  if (after.empty()) return Json{{"row", 0}, {"next", "a"}};
  if (after == "a") return Json{{"row", 1}, {"next", "b"}};
  if (after == "b") return Json{{"row", 2}};
  return common::invalid_input("no such page");
}

std::vector<int> visited(const PageOf& page_of, size_t count) {
  std::vector<int> rows;
  auto status = for_each_page(page_of, [&](Json& page) {
    rows.push_back(page["row"]);
    return rows.size() < count;
  });
  EXPECT_TRUE(status.ok());
  return rows;
}

TEST(ListPages, AreVisitedInOrderUntilTheLast) {
  EXPECT_EQ(visited(three_pages, 100), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(visited(three_pages, 2), (std::vector<int>{0, 1}));
}

TEST(ListPages, AFarmThatKnowsNoPagesGivesOne) {
  int asked = 0;
  auto always_first = [&](const std::string&) -> Result<Json> {
    ++asked;
    return Json{{"row", 0}, {"next", "a"}};
  };
  EXPECT_EQ(visited(always_first, 100), std::vector<int>{0});
  EXPECT_EQ(asked, 2);
  auto without_next = [](const std::string&) -> Result<Json> { return Json{{"row", 0}}; };
  EXPECT_EQ(visited(without_next, 100), std::vector<int>{0});
}

TEST(ListPages, OfAWholeListAreOne) {
  auto page_of = [](const std::string& after) -> Result<Json> {
    if (after.empty()) {
      return Json{
          {"name", "farm"}, {"rows", {1, 2}}, {"of", {{"a", 1}}}, {"omitted", 1}, {"next", "2"}};
    }
    return Json{{"rows", {3}}, {"of", {{"b", 2}}}, {"last", true}};
  };
  auto whole = whole_list(page_of, {"rows", "of", "none"});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->dump(), R"({"name":"farm","rows":[1,2,3],"of":{"a":1,"b":2},"last":true})");
}

// It knows how many rows it left out, and nothing of the pages behind them.
TEST(ListPages, WhatAnEarlierFarmLeavesOutIsToldOn) {
  auto page_of = [](const std::string&) -> Result<Json> {
    return Json{{"rows", {1, 2}}, {"omitted", 7}};
  };
  EXPECT_EQ(whole_list(page_of, {"rows"})->dump(), R"({"rows":[1,2],"omitted":7})");
}

TEST(ListPages, AnErrorEndsTheList) {
  int rows = 0;
  auto fails = [](const std::string& after) -> Result<Json> {
    if (after.empty()) return Json{{"next", "a"}};
    return common::unavailable("gone");
  };
  auto status = for_each_page(fails, [&](Json&) { return ++rows > 0; });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "gone");
  EXPECT_EQ(rows, 1);
}

}  // namespace
}  // namespace clients
