#include "common/records/database.h"

#include <sqlite3.h>

#include <map>
#include <optional>

#include "common/base/cat.h"
#include "common/base/files.h"

namespace common {
namespace {

constexpr int kBusyMs = 10'000;
// PRAGMA user_version. Version 1 has no logs; whoever appends to its file adds the table.
constexpr int kVersion = 2;
constexpr int kApplication = 0x6C665265;  // PRAGMA application_id: "lfRe"

constexpr const char* kSchema =
    "CREATE TABLE runs ("
    " id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, source TEXT NOT NULL, machine TEXT NOT NULL,"
    " device TEXT NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL, sizes TEXT NOT NULL,"
    " batch INTEGER, dtype TEXT NOT NULL,"
    " median_ns REAL, spread_ns REAL, runs INTEGER,"
    " error_abs REAL, error_rel REAL,"
    " strategy TEXT, budget INTEGER, candidates INTEGER, seed INTEGER, best_ns REAL,"
    " baseline_ns REAL) STRICT;"
    "CREATE TABLE gates ("
    " run INTEGER NOT NULL REFERENCES runs(id), position INTEGER NOT NULL, name TEXT NOT NULL,"
    " passed INTEGER NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (run, position)) STRICT;";
constexpr const char* kLogsSchema =
    "CREATE TABLE logs ("
    " id INTEGER PRIMARY KEY, at_ns INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,"
    " machine TEXT NOT NULL, device TEXT NOT NULL, lines TEXT NOT NULL) STRICT;";

Code code_of(int result) {
  switch (result & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
      return Code::kUnavailable;
    case SQLITE_CORRUPT:
      return Code::kCorrupt;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_NOTADB:
    case SQLITE_PERM:
      return Code::kInvalidInput;
    default:
      return Code::kInternal;
  }
}

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Handle = std::unique_ptr<sqlite3, CloseDatabase>;

Error error_of(sqlite3* database, const std::string& path) {
  return {code_of(sqlite3_extended_errcode(database)), cat(path, ": ", sqlite3_errmsg(database))};
}

// A prepared statement: values are bound from the first place on, columns read from the first on.
class Statement {
 public:
  Statement(sqlite3* database, const char* text) {
    prepared_ = sqlite3_prepare_v2(database, text, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(const std::string& text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
  }
  void bind(int64_t value) { sqlite3_bind_int64(statement_, ++bound_, value); }
  void bind(double value) { sqlite3_bind_double(statement_, ++bound_, value); }
  void bind_nothing() { sqlite3_bind_null(statement_, ++bound_); }
  // SQLITE_ROW, SQLITE_DONE or what went wrong.
  int step() {
    read_ = 0;
    return prepared_ == SQLITE_OK ? sqlite3_step(statement_) : prepared_;
  }
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

  bool is_nothing() const { return sqlite3_column_type(statement_, read_) == SQLITE_NULL; }
  int64_t integer() { return sqlite3_column_int64(statement_, read_++); }
  double real() { return sqlite3_column_double(statement_, read_++); }
  std::string text() {
    const void* bytes = sqlite3_column_blob(statement_, read_);
    auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, read_++));
    return bytes == nullptr ? "" : std::string(static_cast<const char*>(bytes), size);
  }
  void skip(int columns) { read_ += columns; }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int prepared_ = SQLITE_OK;
  int bound_ = 0;
  int read_ = 0;
};

void bind_run(Statement& insert, const Record& record) {
  insert.bind(record.at_ns);
  for (const std::string* text : {&record.source, &record.machine, &record.device, &record.backend,
                                  &record.model, &record.sizes}) {
    insert.bind(*text);
  }
  record.batch ? insert.bind(*record.batch) : insert.bind_nothing();
  insert.bind(record.dtype);
  auto nothing = [&insert](int places) {
    for (int k = 0; k < places; ++k) insert.bind_nothing();
  };
  if (record.latency) {
    insert.bind(record.latency->median_ns);
    insert.bind(record.latency->spread_ns);
    insert.bind(record.latency->runs);
  } else {
    nothing(3);
  }
  if (record.error) {
    insert.bind(record.error->absolute);
    insert.bind(record.error->relative);
  } else {
    nothing(2);
  }
  if (record.search) {
    insert.bind(record.search->strategy);
    insert.bind(record.search->budget);
    insert.bind(record.search->candidates);
    insert.bind(static_cast<int64_t>(record.search->seed));
    insert.bind(record.search->best_ns);
    insert.bind(record.search->baseline_ns);
  } else {
    nothing(6);
  }
}

Record read_run(Statement& row) {
  Record record;
  record.at_ns = row.integer();
  for (std::string* text : {&record.source, &record.machine, &record.device, &record.backend,
                            &record.model, &record.sizes}) {
    *text = row.text();
  }
  bool has_batch = !row.is_nothing();
  int64_t batch = row.integer();
  if (has_batch) record.batch = batch;
  record.dtype = row.text();
  if (row.is_nothing()) {
    row.skip(3);
  } else {
    record.latency.emplace();
    record.latency->median_ns = row.real();
    record.latency->spread_ns = row.real();
    record.latency->runs = row.integer();
  }
  if (row.is_nothing()) {
    row.skip(2);
  } else {
    record.error.emplace();
    record.error->absolute = row.real();
    record.error->relative = row.real();
  }
  if (!row.is_nothing()) {
    SearchPoint& search = record.search.emplace();
    search.strategy = row.text();
    search.budget = row.integer();
    search.candidates = row.integer();
    search.seed = static_cast<uint64_t>(row.integer());
    search.best_ns = row.real();
    search.baseline_ns = row.real();
  }
  return record;
}

}  // namespace

struct RecordDatabase::State {
  std::string path;
  Handle database;

  Error error() const { return error_of(database.get(), path); }
  Status run(const char* text) const {
    int result = sqlite3_exec(database.get(), text, nullptr, nullptr, nullptr);
    return result == SQLITE_OK ? Status() : Status(error());
  }
  Result<int64_t> pragma(const char* text) const {
    Statement statement(database.get(), text);
    if (statement.step() != SQLITE_ROW) return error();
    return statement.integer();
  }
  // Within a transaction: the version of a database of records, 0 if it holds nothing at all.
  Result<int64_t> version() const {
    // The first of these fixes what the others see.
    LFARM_ASSIGN_OR_RETURN(int64_t tables, pragma("SELECT count(*) FROM sqlite_schema"));
    LFARM_ASSIGN_OR_RETURN(int64_t application, pragma("PRAGMA application_id"));
    LFARM_ASSIGN_OR_RETURN(int64_t version, pragma("PRAGMA user_version"));
    if (application == 0 && version == 0 && tables == 0) return 0;
    if (application != kApplication) {
      return invalid_input(cat(path, " is no database of lfarm's records"));
    }
    if (version >= 1 && version <= kVersion) return version;
    return unsupported(cat(path, " holds records of version ", version, ", this lfarm knows ",
                           kVersion, ": use a later lfarm"));
  }
  // Makes the tables that a file of that version lacks.
  Status add_tables(int64_t found) const {
    if (found == kVersion) return {};
    if (found == 0) {
      LFARM_RETURN_IF_ERROR(run(kSchema));
      LFARM_RETURN_IF_ERROR(run(cat("PRAGMA application_id=", kApplication).c_str()));
    }
    LFARM_RETURN_IF_ERROR(run(kLogsSchema));
    return run(cat("PRAGMA user_version=", kVersion).c_str());
  }
  // Of several programs that find a new or an older file one makes the tables.
  Status create() const {
    LFARM_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
    Result<int64_t> found = version();
    Status made = found.ok() ? add_tables(*found) : Status(found.error());
    if (made.ok()) return run("COMMIT");
    (void)run("ROLLBACK");
    return made;
  }
  // All that `insert` does, or after an error nothing.
  template <class Insert>
  Status change(const Insert& insert) const {
    LFARM_RETURN_IF_ERROR(run("BEGIN IMMEDIATE"));
    Status inserted = insert();
    if (inserted.ok()) inserted = run("COMMIT");
    if (!inserted.ok()) (void)run("ROLLBACK");
    return inserted;
  }
  Status insert(std::span<const Record> records) const {
    Statement run(database.get(),
                  "INSERT INTO runs VALUES (NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    Statement gate(database.get(), "INSERT INTO gates VALUES (?,?,?,?,?)");
    for (const Record& record : records) {
      bind_run(run, record);
      if (run.step() != SQLITE_DONE) return error();
      run.reset();
      int64_t id = sqlite3_last_insert_rowid(database.get());
      for (size_t k = 0; k < record.gates.size(); ++k) {
        gate.bind(id);
        gate.bind(static_cast<int64_t>(k));
        gate.bind(record.gates[k].name);
        gate.bind(static_cast<int64_t>(record.gates[k].passed));
        gate.bind(record.gates[k].detail);
        if (gate.step() != SQLITE_DONE) return error();
        gate.reset();
      }
    }
    return {};
  }
  Status insert(std::span<const RunLog> logs) const {
    Statement row(database.get(), "INSERT INTO logs VALUES (NULL,?,?,?,?,?,?)");
    for (const RunLog& log : logs) {
      row.bind(log.at_ns);
      for (const std::string* text : {&log.kind, &log.name, &log.machine, &log.device, &log.lines})
        row.bind(*text);
      if (row.step() != SQLITE_DONE) return error();
      row.reset();
    }
    return {};
  }
};

RecordDatabase::RecordDatabase(std::unique_ptr<State> state) : state_(std::move(state)) {}
RecordDatabase::RecordDatabase(RecordDatabase&& other) noexcept = default;
RecordDatabase::~RecordDatabase() = default;

Result<RecordDatabase> RecordDatabase::open(const std::string& path, Access access) {
  bool appends = access == Access::kAppend;
  if (!appends && !file_exists(path)) {
    return invalid_input(
        cat("there is no ", path, ": 'lfarm check CASE... --record ", path, "' makes one"));
  }
  auto state = std::make_unique<State>();
  state->path = path;
  sqlite3* database = nullptr;
  // To read a file of write-ahead logging, its index beside it must be writable.
  int flags = SQLITE_OPEN_READWRITE | (appends ? SQLITE_OPEN_CREATE : 0);
  int opened = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  state->database.reset(database);
  if (opened != SQLITE_OK) return state->error();
  sqlite3_busy_timeout(database, kBusyMs);
  sqlite3_extended_result_codes(database, 1);
  LFARM_RETURN_IF_ERROR(state->run("PRAGMA trusted_schema=OFF; PRAGMA foreign_keys=ON"));
  LFARM_RETURN_IF_ERROR(state->run("BEGIN"));
  LFARM_ASSIGN_OR_RETURN(int64_t version, state->version());
  LFARM_RETURN_IF_ERROR(state->run("COMMIT"));
  if (version == 0 && !appends) {
    return invalid_input(cat(path, " is no database of lfarm's records"));
  }
  if (!appends) return RecordDatabase(std::move(state));
  if (version < kVersion) LFARM_RETURN_IF_ERROR(state->create());
  LFARM_RETURN_IF_ERROR(state->run("PRAGMA synchronous=FULL"));
  // With a log readers and a writer do not wait for each other. The change wants the file for
  // itself: whoever opens it later makes it.
  Status logged = state->run("PRAGMA journal_mode=WAL");
  if (!logged.ok() && logged.error().code != Code::kUnavailable) return logged.error();
  return RecordDatabase(std::move(state));
}

Status RecordDatabase::append(std::span<const Record> records) {
  for (size_t k = 0; k < records.size(); ++k) {
    Status fits = check_record(records[k]);
    if (!fits.ok()) return invalid_input(cat("record ", k + 1, ": ", fits.error().message));
  }
  return state_->change([&] { return state_->insert(records); });
}

Status RecordDatabase::append(std::span<const RunLog> logs) {
  for (const RunLog& log : logs) {
    Status fits = check_run_log(log);
    if (!fits.ok()) return invalid_input(cat("log of ", log.name, ": ", fits.error().message));
  }
  return state_->change([&] { return state_->insert(logs); });
}

Result<std::vector<Record>> RecordDatabase::read_all() {
  // Both tables as they were at one moment.
  LFARM_RETURN_IF_ERROR(state_->run("BEGIN"));
  std::vector<Record> records;
  std::map<int64_t, size_t> place;  // by id
  int result = SQLITE_DONE;
  {
    Statement row(state_->database.get(),
                  "SELECT id,at_ns,source,machine,device,backend,model,sizes,batch,dtype,median_ns,"
                  "spread_ns,runs,error_abs,error_rel,strategy,budget,candidates,seed,best_ns,"
                  "baseline_ns FROM runs ORDER BY id");
    while ((result = row.step()) == SQLITE_ROW) {
      place[row.integer()] = records.size();
      records.push_back(read_run(row));
    }
    Statement gate(state_->database.get(),
                   "SELECT run,name,passed,detail FROM gates ORDER BY run,position");
    while (result == SQLITE_DONE && (result = gate.step()) == SQLITE_ROW) {
      auto found = place.find(gate.integer());
      result = SQLITE_DONE;
      if (found == place.end()) continue;
      std::string name = gate.text();
      bool passed = gate.integer() != 0;
      records[found->second].gates.push_back({std::move(name), passed, gate.text()});
    }
  }
  std::optional<Error> error;
  if (result != SQLITE_DONE) error = state_->error();
  (void)state_->run("COMMIT");
  if (error) return *error;
  for (size_t k = 0; k < records.size(); ++k) {
    Status fits = check_record(records[k]);
    if (!fits.ok()) {
      return corrupt(cat(state_->path, ", record ", k + 1, ": ", fits.error().message));
    }
  }
  return records;
}

Result<std::vector<RunLog>> RecordDatabase::read_latest_logs() {
  LFARM_RETURN_IF_ERROR(state_->run("BEGIN"));
  auto read = [this]() -> Result<std::vector<RunLog>> {
    std::vector<RunLog> logs;
    LFARM_ASSIGN_OR_RETURN(int64_t version, state_->version());
    if (version < 2) return logs;
    Statement row(state_->database.get(),
                  "SELECT at_ns,kind,name,machine,device,lines FROM (SELECT *, row_number() OVER"
                  " (PARTITION BY kind,name,machine,device ORDER BY at_ns DESC,id DESC) AS age"
                  " FROM logs) WHERE age = 1 ORDER BY kind,name,device,machine");
    int result = row.step();
    for (; result == SQLITE_ROW; result = row.step()) {
      RunLog& log = logs.emplace_back();
      log.at_ns = row.integer();
      for (std::string* text : {&log.kind, &log.name, &log.machine, &log.device, &log.lines})
        *text = row.text();
    }
    if (result != SQLITE_DONE) return state_->error();
    return logs;
  };
  auto logs = read();
  (void)state_->run("COMMIT");
  if (!logs.ok()) return logs.error();
  for (const RunLog& log : *logs) {
    Status fits = check_run_log(log);
    if (!fits.ok()) return corrupt(cat(state_->path, ", a log: ", fits.error().message));
  }
  return logs;
}

Status append_records(const std::string& path, std::span<const Record> records) {
  LFARM_ASSIGN_OR_RETURN(RecordDatabase database,
                         RecordDatabase::open(path, RecordDatabase::Access::kAppend));
  return database.append(records);
}

Status append_logs(const std::string& path, std::span<const RunLog> logs) {
  LFARM_ASSIGN_OR_RETURN(RecordDatabase database,
                         RecordDatabase::open(path, RecordDatabase::Access::kAppend));
  return database.append(logs);
}

}  // namespace common
