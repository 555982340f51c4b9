// Who did what stands in the log: if this fails, nobody finds out who withdrew a plan.
#include "coordinator/service/journal/audit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "common/base/log.h"

namespace coordinator::service {
namespace {

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    auto parsed = nlohmann::json::parse(line, nullptr, false);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

TEST(Audit, NamesKeyAndObjectOfWhatChangesSomethingAndOfNothingElse) {
  common::Principal who{"team-a", 0, "key-1"};
  common::Digest plan = common::digest_of("plan");
  testing::internal::CaptureStderr();
  common::log_init("test", common::LogLevel::kInfo, common::LogFormat::kJson);
  audit(common::RevokePlan{11, plan, "it is wrong"}, who, "10.0.0.7", false);
  audit(common::CancelJob{7}, who, "10.0.0.7", true);
  audit(common::WorkerHello{"w1", "cpu", 1, 1, "test"}, who, "10.0.0.8", false);
  audit(common::Ping{1}, who, "10.0.0.7", false);
  audit(common::StatusRequest{1, common::StatusTopic::kJobs}, who, "10.0.0.7", false);
  auto lines = lines_of(testing::internal::GetCapturedStderr());
  ASSERT_EQ(lines.size(), 3u);
  for (const auto& line : lines) {
    EXPECT_EQ(line["message"], "audit");
    EXPECT_EQ(line["key"], "key-1");
    EXPECT_EQ(line["tenant"], "team-a");
  }
  EXPECT_EQ(lines[0]["request"], "RevokePlan");
  EXPECT_EQ(lines[0]["request_id"], 11);
  EXPECT_EQ(lines[0]["object"], "plan " + plan.hex() + ": it is wrong");
  EXPECT_EQ(lines[0]["address"], "10.0.0.7");
  EXPECT_EQ(lines[0]["refused"], "no");
  EXPECT_EQ(lines[1]["request_id"], 0);
  EXPECT_EQ(lines[1]["object"], "job 7");
  EXPECT_EQ(lines[1]["refused"], "yes");
  EXPECT_EQ(lines[2]["object"], "worker w1");
}

}  // namespace
}  // namespace coordinator::service
