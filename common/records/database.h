// Records in an SQLite file that several programs may write to at once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/records/record.h"
#include "common/records/run_log.h"

namespace common {

// One open file. Not thread-safe; threads and processes open it themselves. Readers see whole
// appends or nothing of them.
class RecordDatabase {
 public:
  enum class Access { kRead, kAppend };
  // kAppend creates a file that is missing. kInvalidInput: there is none to read, or it is no
  // database of records; kUnsupported: a later version's; kUnavailable: no room, or it is locked.
  static Result<RecordDatabase> open(const std::string& path, Access access);
  RecordDatabase(RecordDatabase&& other) noexcept;
  RecordDatabase& operator=(RecordDatabase&&) = delete;
  ~RecordDatabase();

  // All of them, durably, or after an error none. kInvalidInput naming the first record (from 1)
  // that check_record() refuses; kUnavailable when other writers did not let go for ten seconds.
  Status append(std::span<const Record> records);
  // The same for logs; what check_run_log() refuses is named by the log's name.
  Status append(std::span<const RunLog> logs);
  // In the order of appending. kCorrupt when the file is damaged.
  Result<std::vector<Record>> read_all();
  // Of logs of the same run the latest, of equal times the one appended last; by kind, name, device
  // and machine. kCorrupt when the file is damaged.
  Result<std::vector<RunLog>> read_latest_logs();

 private:
  struct State;
  explicit RecordDatabase(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Opens, appends and closes.
Status append_records(const std::string& path, std::span<const Record> records);
Status append_logs(const std::string& path, std::span<const RunLog> logs);

}  // namespace common
