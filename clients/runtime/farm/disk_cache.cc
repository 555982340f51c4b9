#include "clients/runtime/farm/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "common/base/cat.h"
#include "common/base/contains.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/oldest_files.h"
#include "common/wire/bundle/plan_bundle.h"

namespace clients {

using common::cat;
using common::Digest;
using common::Result;
using common::Status;

namespace {

constexpr const char* kPlanSuffix = ".plan";
constexpr const char* kLockSuffix = ".lock";
// How exactly the time of a file's last use is kept: a use costs a write to the directory.
constexpr int64_t kUseStepS = 60;

// The whole of a plan's file and the second of its last use; empty when there is none.
Result<std::optional<std::string>> read_plan_file(const std::string& path, int64_t* used_s) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>();
    return common::unavailable(cat("cannot read ", path, ": ", std::strerror(errno)));
  }
  *used_s = info.st_mtim.tv_sec;
  LFARM_ASSIGN_OR_RETURN(std::string bytes, common::read_file(path));
  return std::optional<std::string>(std::move(bytes));
}

// kCorrupt unless every object of the plan is there with its digest.
Status check_objects(const PulledPlan& plan) {
  for (const Digest& object : plan.plan.objects) {
    auto found = plan.objects.find(object);
    if (found == plan.objects.end() || common::digest_of(found->second.bytes) != object) {
      return common::corrupt(cat("object ", object.short_hex(), " is missing or damaged"));
    }
  }
  return {};
}

// The plan's distinct objects, in its order.
std::vector<Digest> distinct_objects(const common::Plan& plan) {
  std::vector<Digest> out;
  for (const Digest& object : plan.objects) {
    if (!common::contains(out, object)) out.push_back(object);
  }
  return out;
}

}  // namespace

std::string DiskCache::path_of(const common::PlanKey& key, const PlanTrust& trust,
                               const std::string& machine) const {
  Digest place = common::Hasher()
                     .data(trust.signer)
                     .digest(common::place_of(trust.tenant, key.digest(), machine))
                     .finish();
  return cat(directory_, "/", place.hex(), kPlanSuffix);
}

// Checking a signature takes longer than all else that finding a plan does. A stamp says that it
// was checked here before: only who may read the directory's secret can make one.
std::optional<Digest> DiskCache::stamp_of(common::ByteView signed_plan, const PlanTrust& trust,
                                          bool makes_secret) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!secret_) {
    std::string path = directory_ + "/stamp.key";
    if (!makes_secret && !common::file_exists(path)) return std::nullopt;
    auto secret = common::load_or_create_signing_key(path);
    if (!secret.ok()) return std::nullopt;
    secret_ = *secret;
  }
  return common::Hasher()
      .data(secret_->secret)
      .data(trust.signer)
      .text(trust.tenant)
      .data(signed_plan)
      .finish();
}

// What the bytes hold, if the plan is what the farm signed.
Result<PulledPlan> DiskCache::open_bundle(std::string bytes, const common::PlanKey& key,
                                          const PlanTrust& trust) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  LFARM_ASSIGN_OR_RETURN(common::PlanBundle bundle,
                         common::decode_bundle(common::as_bytes(*owner)));
  auto stamp = stamp_of(bundle.signed_plan, trust, false);
  bool is_stamped = stamp && std::equal(stamp->bytes.begin(), stamp->bytes.end(),
                                        bundle.stamp.begin(), bundle.stamp.end());
  PulledPlan out;
  LFARM_ASSIGN_OR_RETURN(out.plan, is_stamped ? open_checked_plan(bundle.signed_plan, trust, key)
                                              : open_signed_plan(bundle.signed_plan, trust, key));
  std::vector<Digest> objects = distinct_objects(out.plan);
  if (objects.size() != bundle.objects.size()) return common::corrupt("objects are missing");
  for (size_t i = 0; i < objects.size(); ++i) {
    out.objects.emplace(objects[i], common::SharedBytes{bundle.objects[i], owner});
  }
  out.signed_plan = {bundle.signed_plan, owner};
  out.id = common::digest_of(bundle.signed_plan);
  out.facts = facts_of_hit(out.plan, out.id);
  return out;
}

Result<std::optional<PulledPlan>> DiskCache::look_up(const common::PlanKey& key,
                                                     const PlanTrust& trust,
                                                     const std::string& machine) {
  std::string path = path_of(key, trust, machine);
  int64_t used_s = 0;
  LFARM_ASSIGN_OR_RETURN(auto bytes, read_plan_file(path, &used_s));
  if (!bytes) return std::optional<PulledPlan>();
  auto plan = open_bundle(std::move(*bytes), key, trust);
  if (!plan.ok()) return remove(path, plan.error());
  note_use(path, used_s);
  bool is_neighbours = !machine.empty() && plan->plan.provenance.machine != machine;
  if (is_neighbours) plan->facts.standing = common::Standing::kNeighbour;
  return std::optional<PulledPlan>(std::move(plan).value());
}

Result<std::optional<PulledPlan>> DiskCache::find(const common::PlanKey& key,
                                                  const PlanTrust& trust,
                                                  const std::string& machine) {
  LFARM_ASSIGN_OR_RETURN(auto plan, look_up(key, trust, machine));
  if (!plan) return plan;
  Status objects = check_objects(*plan);
  if (!objects.ok()) return remove(path_of(key, trust, machine), objects.error());
  return plan;
}

void DiskCache::forget(const common::PlanKey& key, const PlanTrust& trust,
                       const std::string& machine) const {
  ::unlink(path_of(key, trust, machine).c_str());
}

// What a file that is not to be used comes to.
Result<std::optional<PulledPlan>> DiskCache::remove(const std::string& path,
                                                    const common::Error& why) {
  ::unlink(path.c_str());
  if (why.code == common::Code::kVerification) return why;
  common::log_warning(cat("removed ", path, ", which is damaged: ", why.message));
  return std::optional<PulledPlan>();
}

Status DiskCache::put(const PulledPlan& plan, const PlanTrust& trust, const std::string& machine) {
  LFARM_RETURN_IF_ERROR(common::make_directories(directory_));
  common::PlanBundle bundle{plan.signed_plan.bytes, {}, {}};
  for (const Digest& object : distinct_objects(plan.plan)) {
    bundle.objects.push_back(plan.objects.at(object).bytes);
  }
  auto stamp = stamp_of(plan.signed_plan.bytes, trust, true);
  // A stamp is this cache's own word.
  bool is_checked = stamp && open_signed_plan(plan.signed_plan.bytes, trust, plan.plan.key).ok();
  if (is_checked) bundle.stamp = stamp->bytes;
  common::Bytes bytes = common::encode_bundle(bundle);
  std::lock_guard<std::mutex> lock(mutex_);
  LFARM_RETURN_IF_ERROR(common::write_file_atomic(path_of(plan.plan.key, trust, machine), bytes));
  common::remove_oldest_files(directory_, kPlanSuffix, {.bytes = bytes_max_});
  return {};
}

void DiskCache::note_use(const std::string& path, int64_t used_s) const {
  if (std::time(nullptr) - used_s < kUseStepS) return;
  // Where the directory is read-only nothing is evicted either.
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

DiskCache::Flight::~Flight() {
  if (fd_ < 0) return;
  // Who had the file open already may still lock it, and then finds the plan that was put.
  ::unlink(path_.c_str());
  ::close(fd_);
}

std::optional<DiskCache::Flight> DiskCache::try_fly(const Digest& what) {
  if (!common::make_directories(directory_).ok()) return Flight(-1, "");
  std::string path = cat(directory_, "/", what.hex(), kLockSuffix);
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return Flight(-1, "");
  // A lock of the open file, so that threads of one process exclude each other too.
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return std::nullopt;
  }
  return Flight(fd, path);
}

}  // namespace clients
