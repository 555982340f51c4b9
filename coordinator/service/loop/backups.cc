#include "coordinator/service/loop/backups.h"

#include <limits>

#include "cache/store/backup.h"
#include "common/base/cat.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;

namespace {
// After a copy that failed, as on a full disk.
constexpr int64_t kRetryNs = int64_t{60} * 1'000'000'000;
}  // namespace

Backups::Backups(BackupOptions options, cache::Store& store, Background& background)
    : options_(std::move(options)), store_(store), background_(background) {
  if (!options_.directory.empty()) last_wall_ns_ = cache::last_backup_wall_ns(options_.directory);
}

void Backups::turn(int64_t now_wall_ns) {
  if (options_.directory.empty() || is_running_) return;
  // What lies in the future was done before the clock was set back.
  auto is_over = [now_wall_ns](int64_t since_ns, int64_t time_ns) {
    return since_ns > now_wall_ns || now_wall_ns - since_ns >= time_ns;
  };
  bool is_due = !last_wall_ns_ || is_over(*last_wall_ns_, options_.every_ms * 1'000'000);
  if (!is_due || !is_over(tried_wall_ns_, kRetryNs)) return;
  is_running_ = true;
  tried_wall_ns_ = now_wall_ns;
  background_.start([this, now_wall_ns]() -> Background::Done {
    auto made = cache::backup_store(store_, options_.directory, now_wall_ns, options_.kept);
    return [this, made, now_wall_ns] {
      is_running_ = false;
      if (!made.ok()) return common::log_error(cat("no backup: ", made.error().message));
      last_wall_ns_ = now_wall_ns;
      common::log_info(cat("the store is backed up in ", *made));
    };
  });
}

std::optional<double> Backups::age_s(int64_t now_wall_ns) const {
  if (options_.directory.empty()) return std::nullopt;
  if (!last_wall_ns_) return std::numeric_limits<double>::infinity();
  return static_cast<double>(now_wall_ns - *last_wall_ns_) * 1e-9;
}

}  // namespace coordinator::service
