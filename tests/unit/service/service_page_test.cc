// What the page is told: if these fail, a long search fills the coordinator's memory, a course says
// what did not happen, or strangers see the farm's jobs.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "coordinator/page/page.h"
#include "coordinator/service/journal/job_course.h"
#include "coordinator/service/web/web_access.h"

namespace coordinator::service {
namespace {

using common::cat;
using common::TaskOutcome;
using Json = nlohmann::ordered_json;

Proposal proposal(uint64_t id) {
  Proposal one;
  one.id = id;
  one.kind = common::TaskKind::kCandidate;
  one.region = static_cast<int>(id % 3);
  one.origin = "crossover";
  one.predicted_ns = 1000.4;
  one.fingerprint = common::digest_of(cat("program ", id));
  return one;
}

CandidateResult measured(uint64_t ns) {
  CandidateResult result;
  result.outcome = TaskOutcome::kOk;
  result.worker = "w";
  result.report.total_ns = ns;
  return result;
}

CandidateResult failed(TaskOutcome outcome, const std::string& message) {
  CandidateResult result;
  result.outcome = outcome;
  result.message = message;
  return result;
}

SearchStatus status(int64_t completed, int64_t best_ns, int64_t expected_ns = 0) {
  SearchStatus status;
  status.completed = completed;
  status.best_ns = best_ns;
  status.expected_ns = expected_ns;
  return status;
}

TEST(JobCourse, TellsWhatBecameOfCandidates) {
  JobCourse course;
  for (uint64_t id = 0; id < 5; ++id) course.proposed(proposal(id), 10);
  course.judged(3, measured(900), 20);
  course.judged(0, failed(TaskOutcome::kWrong, "<b>differs</b>"), 30);
  Proposal known = proposal(5);
  known.known = measured(800);
  course.proposed(known, 40);

  Json summary = course.summary();
  EXPECT_EQ(summary["candidates_total"], 6);
  EXPECT_EQ(summary["outcomes"]["ok"], 2);
  EXPECT_EQ(summary["outcomes"]["wrong"], 1);
  EXPECT_EQ(summary["outcomes"]["pending"], 3);
  Json rows = course.candidates(0, 100, "");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0]["candidate"], 5);  // the newest first
  EXPECT_EQ(rows[0]["measured_ns"], 800);
  EXPECT_EQ(rows[0]["predicted_ns"], 1000);
  EXPECT_EQ(rows[5]["message"], "<b>differs</b>");
  EXPECT_EQ(rows[1]["outcome"], "pending");
  EXPECT_FALSE(rows[1].contains("judged_ms"));

  Json ok = course.candidates(1, 100, "ok");
  ASSERT_EQ(ok.size(), 1u);
  EXPECT_EQ(ok[0]["candidate"], 3);
  EXPECT_EQ(course.candidates(0, 2, "pending").size(), 2u);
}

TEST(JobCourse, KeepsTheLatestCandidatesAndCountsAll) {
  JobCourse course;
  constexpr uint64_t kAll = JobCourse::kCandidatesMax + 1000;
  for (uint64_t id = 0; id < kAll; ++id) course.proposed(proposal(id), 0);
  // A late result of one that is not kept any more still counts.
  course.judged(1, failed(TaskOutcome::kCrash, "gone"), 0);
  Json summary = course.summary();
  EXPECT_EQ(summary["candidates_total"], kAll);
  EXPECT_EQ(summary["candidates_kept"], JobCourse::kCandidatesMax);
  EXPECT_EQ(summary["outcomes"]["crash"], 1);
  Json rows = course.candidates(0, kAll, "");
  ASSERT_EQ(rows.size(), JobCourse::kCandidatesMax);
  EXPECT_EQ(rows.front()["candidate"], kAll - 1);
  EXPECT_EQ(rows.back()["candidate"], 1000);
}

TEST(JobCourse, ItsCurveHasThePointsWhereTheBestChanged) {
  JobCourse course;
  course.progressed(status(0, 0), 1);  // nothing is known yet
  course.progressed(status(0, 0, 950), 5);
  course.progressed(status(0, 0, 950), 6);
  course.progressed(status(1, 900, 950), 10);
  course.progressed(status(2, 900, 950), 20);
  course.progressed(status(4, 900, 600), 30);
  course.progressed(status(8, 700, 700), 80);
  course.progressed(status(9, 700, 700), 90);
  EXPECT_EQ(course.summary()["points"],
            Json::parse("[[0,5,0,950],[1,10,900,950],[4,30,900,600],[8,80,700,700],"
                        "[9,90,700,700]]"));
}

TEST(JobCourse, ItsCurveIsBoundedAndKeepsItsEnds) {
  JobCourse course;
  constexpr int64_t kAll = 5'000;
  for (int64_t k = 0; k < kAll; ++k) course.progressed(status(k, 10'000 - k), k);
  Json points = course.summary()["points"];
  EXPECT_LE(points.size(), JobCourse::kPointsMax + 1);
  EXPECT_GE(points.size(), JobCourse::kPointsMax / 2);
  EXPECT_EQ(points.front()[0], 0);
  EXPECT_EQ(points.back()[0], kAll - 1);
  for (size_t k = 1; k < points.size(); ++k) {
    EXPECT_GE(points[k][0], points[k - 1][0]);
    EXPECT_LE(points[k][2], points[k - 1][2]);
  }
}

TEST(JobCourse, LongMessagesAreCutBetweenCharacters) {
  JobCourse course;
  course.proposed(proposal(0), 0);
  std::string message;
  while (message.size() < 1000) message += "\xe2\x82\xac";  // three bytes each
  course.judged(0, failed(TaskOutcome::kCompileError, message), 0);
  auto cut = course.candidates(0, 1, "")[0]["message"].get<std::string>();
  EXPECT_LE(cut.size(), JobCourse::kMessageBytesMax + 3);
  ASSERT_TRUE(cut.ends_with("..."));
  EXPECT_EQ((cut.size() - 3) % 3, 0u);
}

TEST(JobCourse, TheFirstEndCounts) {
  JobCourse course;
  EXPECT_EQ(course.ending(), JobEnding::kOpen);
  course.ended(JobEnding::kFailed, "no worker");
  course.ended(JobEnding::kDone, "");
  EXPECT_EQ(course.ending(), JobEnding::kFailed);
  EXPECT_EQ(course.message(), "no worker");
}

common::HttpRequest from(const std::string& peer, const std::string& host) {
  common::HttpRequest request{"/api/v1/status", {}};
  request.peer = peer;
  request.headers["host"] = host;
  return request;
}

TEST(WebAccess, WithoutATokenItIsThisMachineByItsName) {
  WebAccess access = WebAccess::create("").value();
  auto status = [&](const common::HttpRequest& request) {
    auto refusal = access.refusal(request);
    return refusal ? refusal->status : 200;
  };
  for (const char* peer : {"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"}) {
    for (const char* host :
         {"127.0.0.1", "127.0.0.1:8080", "localhost:80", "[::1]:8080", "[::1]"}) {
      EXPECT_EQ(status(from(peer, host)), 200) << peer << " " << host;
    }
  }
  for (const char* peer :
       {"10.0.0.1", "192.168.127.1", "::2", "::ffff:10.0.0.1", "", "1127.0.0.1"}) {
    EXPECT_EQ(status(from(peer, "localhost")), 403) << peer;
  }
  for (const char* host : {"", "example.org", "localhost.example.org", "127.0.0.1.example.org",
                           "localhost:80a", "[::1", "[::1]x", "localhost@example.org", "::1"}) {
    EXPECT_EQ(status(from("127.0.0.1", host)), 403) << host;
  }
  for (const char* header :
       {"forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"}) {
    common::HttpRequest request = from("127.0.0.1", "localhost");
    request.headers[header] = "";
    EXPECT_EQ(status(request), 403) << header;
  }
}

TEST(WebAccess, ATokenIsForWhoeverSendsIt) {
  common::ScratchDirectory scratch = common::ScratchDirectory::create("lfarm-web").value();
  auto file = [&](const std::string& content, mode_t mode) {
    std::string path = scratch.path() + "/token";
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), mode);
    return path;
  };
  WebAccess access = WebAccess::create(file("0123456789abcdef\n", 0600)).value();
  auto status = [&](const std::string& authorization) {
    common::HttpRequest request = from("127.0.0.1", "localhost");
    if (!authorization.empty()) request.headers["authorization"] = authorization;
    auto refusal = access.refusal(request);
    return refusal ? refusal->status : 200;
  };
  EXPECT_EQ(status("Bearer 0123456789abcdef"), 200);
  EXPECT_EQ(status("bearer 0123456789abcdef"), 200);
  for (const char* wrong : {"", "Bearer ", "Bearer", "Bearer 0123456789abcdeF", "0123456789abcdef",
                            "Basic 0123456789abcdef", "Bearer 0123456789abcdef "}) {
    EXPECT_EQ(status(wrong), 401) << wrong;
  }
  common::HttpRequest elsewhere = from("10.0.0.1", "example.org");
  elsewhere.headers["authorization"] = "Bearer 0123456789abcdef";
  EXPECT_FALSE(access.refusal(elsewhere).has_value());

  for (const char* content : {"", "\n", "short", "0123456789 abcdef", "0123456789\001abcdef"}) {
    EXPECT_FALSE(WebAccess::create(file(content, 0600)).ok()) << content;
  }
  EXPECT_FALSE(WebAccess::create(file(std::string(257, 'x'), 0600)).ok());
  EXPECT_FALSE(WebAccess::create(file("0123456789abcdef\n", 0644)).ok());
  EXPECT_FALSE(WebAccess::create(scratch.path() + "/nowhere").ok());
}

TEST(Page, IsWholeAndNamesOnlyItself) {
  std::set<std::string_view> paths;
  for (const PageFile& file : page_files()) {
    EXPECT_TRUE(paths.insert(file.path).second) << file.path;
    EXPECT_FALSE(file.text.empty()) << file.path;
    for (const char* elsewhere : {"https://", "//cdn", "innerHTML", "eval("}) {
      EXPECT_EQ(file.text.find(elsewhere), std::string_view::npos) << file.path << elsewhere;
    }
  }
  EXPECT_TRUE(paths.contains("/"));
  for (const PageFile& file : page_files()) {
    for (size_t at = file.text.find("from './"); at != std::string_view::npos;
         at = file.text.find("from './", at + 1)) {
      std::string_view name = file.text.substr(at + 8);
      name = name.substr(0, name.find('\''));
      EXPECT_TRUE(paths.contains(cat("/page/", name))) << file.path << " imports " << name;
    }
  }
}

}  // namespace
}  // namespace coordinator::service
