// Records on the disk: if these fail, measurements are lost, changed, or kept by halves.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/records/database.h"

namespace common {
namespace {

Record sample(const std::string& model = "llama") {
  Record record;
  record.at_ns = 1'763'700'000'000'000'000;
  record.source = "lfarm check";
  record.machine = "host";
  record.device = "cpu-x86_64-avx512";
  record.backend = "lfarm";
  record.model = model;
  record.sizes = "s0=4";
  record.batch = 4;
  record.dtype = "f32";
  record.latency = Latency{1.5e6, 2e4, 12};
  record.error = OutputErrors{1e-6, 2.5e-7};
  record.search = SearchPoint{"farm", 64, 60, UINT64_MAX, 1e6, 2e6};
  record.gates = {{"outputs", true, ""}, {"speed", false, "3 > 2"}};
  return record;
}

class RecordsTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "records.db") const {
    return scratch_.path() + "/" + name;
  }
  // What the file holds, as a program that comes later sees it.
  static std::vector<Record> read(const std::string& path) {
    auto database = RecordDatabase::open(path, RecordDatabase::Access::kRead);
    EXPECT_TRUE(database.ok()) << database.error().message;
    auto records = database->read_all();
    EXPECT_TRUE(records.ok()) << records.error().message;
    return records.ok() ? *records : std::vector<Record>();
  }
  static void run_sql(const std::string& path, const std::string& text) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    char* problem = nullptr;
    EXPECT_EQ(sqlite3_exec(database, text.c_str(), nullptr, nullptr, &problem), SQLITE_OK)
        << problem;
    sqlite3_free(problem);
    sqlite3_close(database);
  }

 private:
  ScratchDirectory scratch_ = ScratchDirectory::create("lfarm-records").value();
};

TEST_F(RecordsTest, WhatIsAppendedIsRead) {
  Record bare;
  bare.source = "import";
  bare.device = "gpu";
  bare.backend = "eager";
  bare.model = "a \"quoted\"; DROP TABLE runs; -- \xE2\x9C\x93";
  std::vector<Record> records{sample(), bare, sample("bert")};
  ASSERT_TRUE(append_records(path(), records).ok());
  ASSERT_TRUE(append_records(path(), {}).ok());
  std::vector<Record> more{sample("vit")};
  ASSERT_TRUE(append_records(path(), more).ok());
  records.push_back(more[0]);
  EXPECT_EQ(read(path()), records);
}

TEST_F(RecordsTest, OneWrongRecordKeepsAllOut) {
  std::vector<Record> records{sample(), sample()};
  records[1].latency->median_ns = std::nan("");
  Status appended = append_records(path(), records);
  ASSERT_FALSE(appended.ok());
  EXPECT_EQ(appended.error().code, Code::kInvalidInput);
  EXPECT_NE(appended.error().message.find("record 2"), std::string::npos)
      << appended.error().message;
  EXPECT_TRUE(read(path()).empty());
}

TEST_F(RecordsTest, EveryFieldIsChecked) {
  std::vector<std::pair<const char*, void (*)(Record&)>> wrongs = {
      {"source", [](Record& r) { r.source = ""; }},
      {"device", [](Record& r) { r.device = ""; }},
      {"backend", [](Record& r) { r.backend = ""; }},
      {"model", [](Record& r) { r.model = ""; }},
      {"model", [](Record& r) { r.model = std::string(kRecordTextMax + 1, 'x'); }},
      {"model", [](Record& r) { r.model = "a\nb"; }},
      {"model", [](Record& r) { r.model = "\xC0\xAF"; }},
      {"model", [](Record& r) { r.model = "\xED\xA0\x80"; }},
      {"sizes", [](Record& r) { r.sizes = "\x7F"; }},
      {"dtype", [](Record& r) { r.dtype = "\xFF"; }},
      {"time", [](Record& r) { r.at_ns = -1; }},
      {"batch", [](Record& r) { r.batch = 0; }},
      {"latency", [](Record& r) { r.latency->median_ns = 0; }},
      {"latency", [](Record& r) { r.latency->median_ns = HUGE_VAL; }},
      {"spread", [](Record& r) { r.latency->spread_ns = -1; }},
      {"runs", [](Record& r) { r.latency->runs = -1; }},
      {"absolute error", [](Record& r) { r.error->absolute = -1; }},
      {"relative error", [](Record& r) { r.error->relative = std::nan(""); }},
      {"budget", [](Record& r) { r.search->budget = -1; }},
      {"best time", [](Record& r) { r.search->best_ns = 0; }},
      {"gate", [](Record& r) { r.gates[0].name = ""; }},
      {"gate", [](Record& r) { r.gates.resize(kRecordGatesMax + 1, r.gates[0]); }},
  };
  EXPECT_TRUE(check_record(sample()).ok());
  for (const auto& [field, spoil] : wrongs) {
    Record record = sample();
    spoil(record);
    Status status = check_record(record);
    ASSERT_FALSE(status.ok()) << field;
    EXPECT_NE(status.error().message.find(field), std::string::npos) << status.error().message;
  }
}

TEST_F(RecordsTest, TextsOfAnyKindAreMadeToFit) {
  EXPECT_EQ(record_text("a\nb\xFF"), "a b?");
  EXPECT_EQ(record_text(std::string(300, 'x')).size(), kRecordTextMax);
  // No character is cut in two.
  EXPECT_EQ(record_text("abc\xC3\xA9", 4), "abc");
}

// Also that of several programs that make the file at the same moment one does.
TEST_F(RecordsTest, WritersAtOnceLoseNothing) {
  constexpr int kWriters = 4, kAppends = 25;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool all = true;
      for (int k = 0; k < kAppends; ++k) {
        std::vector<Record> pair{sample(cat("model ", writer)), sample(cat("model ", writer))};
        pair[0].batch = pair[1].batch = k + 1;
        Status appended = append_records(path(), pair);
        if (!appended.ok()) std::fprintf(stderr, "%s\n", appended.error().message.c_str());
        all = all && appended.ok();
      }
      ::_exit(all ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  std::vector<Record> records = read(path());
  ASSERT_EQ(records.size(), size_t{2 * kWriters * kAppends});
  // The two of one append lie side by side.
  for (size_t k = 0; k < records.size(); k += 2) EXPECT_EQ(records[k], records[k + 1]);
}

TEST_F(RecordsTest, WhatIsNoDatabaseOfRecordsIsRefused) {
  auto code_of = [](const std::string& path, RecordDatabase::Access access) {
    auto database = RecordDatabase::open(path, access);
    EXPECT_FALSE(database.ok()) << path;
    return database.ok() ? Code::kInternal : database.error().code;
  };
  using Access = RecordDatabase::Access;
  EXPECT_EQ(code_of(path("absent.db"), Access::kRead), Code::kInvalidInput);
  EXPECT_FALSE(file_exists(path("absent.db")));
  std::string text(4096, 'x');
  ASSERT_TRUE(write_file_atomic(path("text.db"), as_bytes(text)).ok());
  EXPECT_EQ(code_of(path("text.db"), Access::kRead), Code::kInvalidInput);
  EXPECT_EQ(code_of(path("text.db"), Access::kAppend), Code::kInvalidInput);
  EXPECT_EQ(read_file(path("text.db")).value(), text);
  run_sql(path("other.db"), "CREATE TABLE runs (id INTEGER)");
  EXPECT_EQ(code_of(path("other.db"), Access::kRead), Code::kInvalidInput);
  EXPECT_EQ(code_of(path("other.db"), Access::kAppend), Code::kInvalidInput);
}

TEST_F(RecordsTest, ALaterVersionIsLeftAlone) {
  std::vector<Record> records{sample()};
  ASSERT_TRUE(append_records(path(), records).ok());
  run_sql(path(), "PRAGMA user_version=3");
  auto database = RecordDatabase::open(path(), RecordDatabase::Access::kAppend);
  ASSERT_FALSE(database.ok());
  EXPECT_EQ(database.error().code, Code::kUnsupported);
}

RunLog log_of(const std::string& name, int64_t at_ns, const std::string& lines) {
  return {at_ns, "training", name, "host", "cpu", lines};
}

std::vector<RunLog> read_logs(const std::string& path) {
  auto logs = RecordDatabase::open(path, RecordDatabase::Access::kRead)->read_latest_logs();
  EXPECT_TRUE(logs.ok()) << logs.error().message;
  return logs.ok() ? *logs : std::vector<RunLog>();
}

TEST_F(RecordsTest, TheLatestLogOfARunIsRead) {
  RunLog other = log_of("fft", 5, "{}\n");
  other.device = "cuda";
  std::vector<RunLog> logs{log_of("mlp", 7, "{\"a\":1}\n{}"), log_of("fft", 9, "late"),
                           log_of("fft", 8, "early"), other};
  ASSERT_TRUE(append_logs(path(), logs).ok());
  std::vector<RunLog> again{log_of("mlp", 7, "as late, but appended later")};
  ASSERT_TRUE(append_logs(path(), again).ok());
  EXPECT_EQ(read_logs(path()), (std::vector<RunLog>{logs[1], other, again[0]}));
  EXPECT_TRUE(read(path()).empty());
}

TEST_F(RecordsTest, AWrongLogKeepsAllOut) {
  for (const RunLog& wrong :
       {log_of("", 1, "{}"), log_of("a\nb", 1, "{}"), log_of("a", -1, "{}"), log_of("a", 1, "a\tb"),
        log_of("a", 1, "\xFF"), log_of("a", 1, std::string(kRunLogBytesMax + 1, 'x')),
        RunLog{1, "", "a", "", "", "{}"}}) {
    std::vector<RunLog> logs{log_of("right", 1, "{}"), wrong};
    Status appended = append_logs(path(), logs);
    ASSERT_FALSE(appended.ok()) << wrong.name;
    EXPECT_EQ(appended.error().code, Code::kInvalidInput);
  }
  EXPECT_TRUE(read_logs(path()).empty());
}

// A file as the release before wrote it.
TEST_F(RecordsTest, AFileOfVersionOneIsReadAndThenTakesLogs) {
  std::vector<Record> records{sample()};
  ASSERT_TRUE(append_records(path(), records).ok());
  run_sql(path(), "DROP TABLE logs; PRAGMA user_version=1");
  EXPECT_EQ(read(path()), records);
  EXPECT_TRUE(read_logs(path()).empty());
  std::vector<RunLog> logs{log_of("fft", 9, "{}")};
  ASSERT_TRUE(append_logs(path(), logs).ok());
  EXPECT_EQ(read_logs(path()), logs);
  EXPECT_EQ(read(path()), records);
}

TEST_F(RecordsTest, WhatSomebodyElsePutThereIsNotBelieved) {
  std::vector<Record> records{sample()};
  ASSERT_TRUE(append_records(path(), records).ok());
  run_sql(path(), "UPDATE runs SET model = ''");
  auto read = RecordDatabase::open(path(), RecordDatabase::Access::kRead)->read_all();
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_NE(read.error().message.find("record 1: model"), std::string::npos);
}

}  // namespace
}  // namespace common
