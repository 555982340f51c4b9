// Copies of the store, made while the farm works.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cache/store/store.h"
#include "common/base/clock.h"
#include "coordinator/service/loop/background.h"

namespace coordinator::service {

struct BackupOptions {
  std::string directory;  // empty: no copies
  int64_t every_ms = 6 * 3600 * 1000;
  size_t kept = 8;  // the latest
};

// Not thread-safe; the copying itself is done in the background.
class Backups {
 public:
  Backups(BackupOptions options, cache::Store& store, Background& background);
  // To be called on every round of the loop.
  void turn(int64_t now_wall_ns);
  // Seconds since the latest copy was made; empty where none are, infinite before the first.
  std::optional<double> age_s(int64_t now_wall_ns) const;

 private:
  const BackupOptions options_;
  cache::Store& store_;
  Background& background_;
  std::optional<int64_t> last_wall_ns_;
  int64_t tried_wall_ns_ = 0;
  bool is_running_ = false;
};

}  // namespace coordinator::service
