// Log lines: if these fail, somebody's name writes lines of its own into the log, or tools cannot
// read what the farm says.
#include "common/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"
#include "common/base/log_levels.h"
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

// ---- LFARM_LOGS --------------------------------------------------------------------------------

TEST(LogLevels, ComponentsAreOfFolders) {
  auto levels = LogLevels::parse("+session, farm,-all,-store");
  ASSERT_TRUE(levels.ok()) << levels.error().message;
  EXPECT_EQ(levels->of("clients/runtime/session.cc"), LogLevel::kDebug);
  EXPECT_EQ(levels->of("clients/runtime/farm/farm_client.cc"), LogLevel::kInfo);
  EXPECT_EQ(levels->of("cache/store/store.cc"), LogLevel::kError);
  EXPECT_EQ(levels->of("worker/agent/agent.cc"), LogLevel::kError);  // as all
  EXPECT_EQ(levels->lowest(), LogLevel::kDebug);
  auto some = LogLevels::parse("search");
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->of("coordinator/search/job_search.cc"), LogLevel::kInfo);
  EXPECT_EQ(some->of("coordinator/service/loop/loop.cc"), std::nullopt);
  auto none = LogLevels::parse("");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->lowest(), std::nullopt);
}

TEST(LogLevels, UnknownComponentsAreAnsweredWithTheKnown) {
  auto wrong = LogLevels::parse("session,+sesion");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, Code::kInvalidInput);
  EXPECT_EQ(
      wrong.error().message,
      "LFARM_LOGS: no component is called 'sesion'; known are all, dynamo, farm, session, "
      "command, store, wire, search, coordinator, worker, with + for all lines or - for errors "
      "alone");
}

TEST(LogLevels, WinOverTheProcesssLevel) {
  testing::internal::CaptureStderr();
  ::setenv("LFARM_LOGS", "+session,-store", 1);
  log_init("test", LogLevel::kWarning, LogFormat::kText);
  log_debug("shown: session", {}, "clients/runtime/session.cc");
  log_info("hidden: farm", {}, "clients/runtime/farm/farm_client.cc");
  log_warning("shown: farm", {}, "clients/runtime/farm/farm_client.cc");
  log_warning("hidden: store", {}, "cache/store/store.cc");
  log_error("shown: store", {}, "cache/store/store.cc");
  ::setenv("LFARM_LOGS", "nobody", 1);
  log_init("test", LogLevel::kWarning, LogFormat::kText);
  log_info("hidden: all");
  ::unsetenv("LFARM_LOGS");
  std::string text = testing::internal::GetCapturedStderr();
  for (const char* what : {"shown: session", "shown: farm", "shown: store"}) {
    EXPECT_NE(text.find(what), std::string::npos) << what << " is missing in\n" << text;
  }
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
  EXPECT_NE(text.find("no component is called 'nobody'"), std::string::npos) << text;
}

// The build names sources by paths of its own.
TEST(LogLevels, AFilesPathIsTakenFromTheRoot) {
  std::string root = __FILE__;
  root.resize(root.size() - std::string("tests/unit/base/log_test.cc").size());
  std::string here = root + "clients/runtime/session.cc";
  testing::internal::CaptureStderr();
  ::setenv("LFARM_LOGS", "session", 1);
  log_init("test", LogLevel::kWarning, LogFormat::kText);
  log_info("shown", {}, here.c_str());
  log_info("joined", {}, "include/lfarm_clients_runtime/clients/runtime/session.cc");
  log_info("hidden", {}, __FILE__);
  ::unsetenv("LFARM_LOGS");
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("shown"), std::string::npos) << text;
  EXPECT_NE(text.find("joined"), std::string::npos) << text;
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
}

}  // namespace
}  // namespace common
