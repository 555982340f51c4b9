// Plans that farms gave, kept on this machine's disk: the clients' own tier between memory and
// farm.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "clients/runtime/farm/pulled_plan.h"
#include "common/base/digest.h"
#include "common/base/result.h"
#include "common/base/signing.h"
#include "common/plan/plan.h"

namespace clients {

// One file for each plan with its objects (common/wire/bundle/plan_bundle.h). Processes and threads
// may share a directory: files are written and removed atomically. Callers check a plan as if it
// came from a farm, so that a file that was tampered with counts as missing.
class DiskCache {
 public:
  // Nothing is created before the first put. `bytes_max`: of all files together; what was used
  // longest ago goes first. 0: no bound.
  explicit DiskCache(std::string directory, uint64_t bytes_max = kBytesMaxDefault)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  static constexpr uint64_t kBytesMaxDefault = uint64_t{4} << 30;

  // Empty when there is none. A damaged file is removed, with a warning, and counts as none.
  // kVerification when the plan is not one to trust, such as a revoked one.
  // `machine`: the class that the plan was asked for; empty: any, as for imported plans. A plan
  // that was chosen on another class has the standing of a neighbour's.
  common::Result<std::optional<PulledPlan>> find(const common::PlanKey& key, const PlanTrust& trust,
                                                 const std::string& machine = {});
  // The same for whoever only asks about the plan: its objects are not compared with their digests,
  // so nothing of them may be loaded.
  common::Result<std::optional<PulledPlan>> look_up(const common::PlanKey& key,
                                                    const PlanTrust& trust,
                                                    const std::string& machine = {});
  // Keeps a plan as its farm signed it; on success it is there for every process.
  common::Status put(const PulledPlan& plan, const PlanTrust& trust,
                     const std::string& machine = {});

  // Removes the plan, if it is there.
  void forget(const common::PlanKey& key, const PlanTrust& trust,
              const std::string& machine = {}) const;

  // The right to fetch something for all processes; given back on destruction, and by the system
  // when the process ends in any way.
  class Flight {
   public:
    Flight(Flight&& other) noexcept { swap(other); }
    Flight& operator=(Flight&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Flight();

   private:
    friend class DiskCache;
    Flight(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    void swap(Flight& other) noexcept {
      std::swap(fd_, other.fd_);
      std::swap(path_, other.path_);
    }
    int fd_ = -1;
    std::string path_;
  };
  // Empty while another process or thread has the right to fetch `what`. Where the directory cannot
  // be written everyone gets it, for nobody could tell the others.
  std::optional<Flight> try_fly(const common::Digest& what);

  const std::string& directory() const { return directory_; }

 private:
  std::string path_of(const common::PlanKey& key, const PlanTrust& trust,
                      const std::string& machine) const;
  std::optional<common::Digest> stamp_of(common::ByteView signed_plan, const PlanTrust& trust,
                                         bool makes_secret);
  common::Result<PulledPlan> open_bundle(std::string bytes, const common::PlanKey& key,
                                         const PlanTrust& trust);
  static common::Result<std::optional<PulledPlan>> remove(const std::string& path,
                                                          const common::Error& why);
  void note_use(const std::string& path, int64_t used_s) const;

  std::string directory_;
  uint64_t bytes_max_;
  std::mutex mutex_;                          // guards what follows, and writing of files
  std::optional<common::SigningKey> secret_;  // by which stamps are this directory's owner's
};

}  // namespace clients
