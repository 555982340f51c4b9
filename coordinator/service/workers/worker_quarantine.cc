#include "coordinator/service/workers/worker_quarantine.h"

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace coordinator::service {

using common::cat;

namespace {

constexpr int64_t kQuarantineNs = int64_t{7} * 24 * 3'600 * 1'000'000'000;

// Beside the fingerprints of candidates, which no name has.
common::Digest record_of(const std::string& name) {
  return common::Hasher().text("quarantined-worker").text(name).finish();
}

}  // namespace

void quarantine_worker(cache::Store& store, Workers& workers, const std::string& name,
                       const std::string& why) {
  common::log_error(cat("a worker is quarantined: ", why,
                        "; 'lfarm cache revoke --worker' withdraws the plans that it made"),
                    {{"worker", name}});
  auto status = store.put_negative(record_of(name), {why, common::wall_clock_ns() + kQuarantineNs});
  if (!status.ok()) common::log_error(cat("cannot keep it: ", status.error().message));
  workers.expel(name, cat("this worker is quarantined: ", why));
}

std::optional<std::string> quarantine_of(cache::Store& store, const std::string& name) {
  auto found = store.get_negative(record_of(name));
  if (!found.ok() || !*found) return std::nullopt;
  return cat("this worker is quarantined: ", (*found)->reason,
             "; install it anew, and start it under another --name");
}

}  // namespace coordinator::service
