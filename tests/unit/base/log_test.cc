// Log lines: if these fail, somebody's name writes lines of its own into the log, or tools cannot
// read what the farm says.
#include "common/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/random.h"

namespace common {
namespace {

using Json = nlohmann::json;

std::string json_line(std::string_view message, LogFields fields) {
  return "{" + log_text(LogFormat::kJson, message, fields) + "}";
}

TEST(Log, FieldsFollowTheMessage) {
  std::string worker = "w1", tenant = "team a";
  EXPECT_EQ(log_text(LogFormat::kText, "a job failed: 'x'",
                     {{"job", 7}, {"worker", worker}, {"tenant", tenant}}),
            "a job failed: 'x' job=7 worker=w1 tenant=\"team a\"");
  Json line = Json::parse(json_line("a job failed", {{"job", UINT64_MAX}, {"worker", worker}}));
  EXPECT_EQ(line, (Json{{"message", "a job failed"}, {"job", UINT64_MAX}, {"worker", "w1"}}));
}

// Whatever the bytes, a line is one line, parses, and says no more than it was given.
TEST(Log, HostileNamesAreInert) {
  const std::string hostile[] = {"\",\"level\":\"error\",\"x\":\"",
                                 "line\nlevel=error job=8",
                                 "\r\x1b[31mred\x7f",
                                 std::string("nul\0nul", 7),
                                 "\xc3(",
                                 "\xed\xa0\x80\xf4\x90\x80\x80",
                                 "\xf0\x9f\x92\xa9 \xc3\xa4",
                                 "\\",
                                 "",
                                 "\xe2\x82",
                                 "\xc0\xaf"};
  for (const std::string& name : hostile) {
    std::string line = json_line(name, {{"worker", name}, {"job", 7}});
    Json parsed = Json::parse(line, nullptr, false);
    ASSERT_TRUE(parsed.is_object()) << line;
    EXPECT_EQ(parsed.size(), 3u) << line;
    EXPECT_EQ(parsed["job"], 7) << line;
    for (LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      for (char c : log_text(format, name, {{"worker", name}})) {
        EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != 0x7f) << line;
      }
    }
  }
  // What is fine comes through as it is.
  Json fine = Json::parse(json_line("\xf0\x9f\x92\xa9 \xc3\xa4 \"q\" \\ \n", {}));
  EXPECT_EQ(fine["message"], "\xf0\x9f\x92\xa9 \xc3\xa4 \"q\" \\ \n");
}

TEST(Log, RandomBytesAlwaysParse) {
  Random random(3);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string bytes(random.below(12), '\0');
    for (char& c : bytes) c = static_cast<char>(random.next());
    std::string line = json_line(bytes, {{"tenant", bytes}});
    ASSERT_TRUE(Json::accept(line)) << "trial " << trial << ": " << line;
  }
}

TEST(Log, LevelsAndFormatsHaveNames) {
  EXPECT_EQ(parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_EQ(parse_log_level("loud"), std::nullopt);
  EXPECT_EQ(parse_log_format("json"), LogFormat::kJson);
  EXPECT_EQ(parse_log_format("xml"), std::nullopt);
}

TEST(Log, AWholeLineIsOneObject) {
  testing::internal::CaptureStderr();
  log_init("test", LogLevel::kInfo, LogFormat::kJson);
  log_debug("not shown");
  log_warning("a \"worker\"\n", {{"worker", "w 1"}, {"task", 9}});
  std::string text = testing::internal::GetCapturedStderr();
  ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  Json line = Json::parse(text);
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["process"], "test");
  EXPECT_EQ(line["message"], "a \"worker\"\n");
  EXPECT_EQ(line["task"], 9);
  EXPECT_EQ(line["time"].get<std::string>().back(), 'Z');
}

}  // namespace
}  // namespace common
