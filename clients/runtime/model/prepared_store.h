// Where processes of this machine leave each other what plans compute of weights alone, such as
// packed panels: the first computes it, and later ones map its file.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "clients/pt2/archive/file_identity.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/plan/plan.h"
#include "common/runtime/executor/executor.h"

namespace clients {

// Writes an executor's prepared values with a thread that gives way to others. The executor
// outlives this, and no weight is bound to it meanwhile.
class PreparedWriter {
 public:
  // How long the values have to be in use before they are worth a file: a search may replace their
  // plan within seconds.
  static constexpr std::chrono::seconds kDelay{30};
  // How long finish() waits at most.
  static constexpr std::chrono::seconds kPatience{5};

  struct File {
    std::string directory, path;
    common::Digest plan;
    uint64_t bytes_max = 0;  // of all such files in the directory
  };
  PreparedWriter(File file, std::vector<common::ByteView> values);
  // Gives up what is not written.
  ~PreparedWriter();
  PreparedWriter(const PreparedWriter&) = delete;
  PreparedWriter& operator=(const PreparedWriter&) = delete;
  // Writes at once, and returns when the file is there or cannot be.
  void finish();

 private:
  enum class Stage : uint8_t { kWaiting, kWriting, kDone };
  void write();
  bool is_given_up();

  const File file_;
  const std::vector<common::ByteView> values_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Stage stage_ = Stage::kWaiting;
  bool is_over_ = false;
  std::thread thread_;
};

// Thread-safe. A directory that cannot be written or has no room leaves every process to compute
// for itself.
class PreparedStore {
 public:
  static constexpr uint64_t kBytesMaxDefault = uint64_t{8} << 30;
  // Less is computed in less time than a process takes to start.
  static constexpr uint64_t kBytesLeastDefault = uint64_t{16} << 20;

  struct Options {
    std::string directory;                      // made by the first write; empty: nothing is kept
    uint64_t bytes_max = kBytesMaxDefault;      // of all files; those used longest ago go first
    uint64_t bytes_least = kBytesLeastDefault;  // of a file
    int64_t settled_ns = kSettledNs;            // see is_settled()
  };
  explicit PreparedStore(Options options) : options_(std::move(options)) {}

  // Prepares an executor to which the weights of `file` are bound: with what another process left,
  // else by computing it, which the result writes for others. Null where there is nothing to write.
  common::Result<std::unique_ptr<PreparedWriter>> prepare(common::Executor& executor,
                                                          const FileIdentity& file) const;

 private:
  std::string path_of(const common::PlanKey& key, const FileIdentity& file) const;
  bool use_file(const std::string& path, common::Executor& executor) const;
  bool has_room_for(uint64_t bytes) const;

  const Options options_;
};

}  // namespace clients
