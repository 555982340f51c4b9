#include "clients/cli/access/plan_source.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include "clients/cli/access/plan_cache.h"
#include "clients/cli/base/signals.h"
#include "clients/runtime/farm/farm_access.h"
#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/wire/codec.h"
#include "common/wire/ir_codec.h"

namespace clients {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr int kOwnFarmConnectMs = 15'000;
constexpr auto kLockPause = std::chrono::milliseconds(100);
// ZeroMQ's ipc paths are those of Unix sockets.
constexpr size_t kSocketPathMax = 100;

// What the client's steps took, one after the other.
class LapClock {
 public:
  explicit LapClock(std::vector<common::StageTime>* stages) : stages_(stages) {}
  void lap(const char* stage) {
    int64_t now = clock_.now_ns();
    stages_->push_back({stage, static_cast<double>(now - last_ns_) * 1e-6});
    last_ns_ = now;
  }

 private:
  common::SteadyClock clock_;
  std::vector<common::StageTime>* stages_;
  int64_t last_ns_ = clock_.now_ns();
};

uint32_t in_flight_of(const std::string& text) {
  if (text == "auto") return common::kInFlightAuto;
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Private to this user where a path of the state directory is short enough for a socket.
std::string own_endpoint(const StateDirectory& state) {
  std::string path = state.path + "/farm.socket";
  return path.size() < kSocketPathMax && path[0] == '/' ? "ipc://" + path : "tcp://127.0.0.1:*";
}

// Without a store there is nothing to find, and a damaged one is the coordinator's to mend.
PlanResolver::Store store_of(const StateDirectory& state) {
  return [state](const common::PlanKey& key,
                 const std::string& machine) -> Result<std::optional<PulledPlan>> {
    auto cache = PlanCache::open(state);
    if (!cache.ok()) return std::optional<PulledPlan>();
    return (*cache)->find(key, machine);
  };
}

}  // namespace

FarmAccess access_of(const FarmOptions& options) {
  return {options.farm, options.server_key, options.keys, options.trust, {options.state}};
}

Result<std::unique_ptr<FarmClient>> connect_to_farm(const FarmOptions& options) {
  return connect_to_farm(access_of(options), check_stop);
}

PlanSource::PlanSource(FarmOptions options, BudgetOptions budget, Progress* progress, Disk disk)
    : options_(std::move(options)),
      budget_(std::move(budget)),
      progress_(progress),
      state_{options_.state},
      disk_use_(disk),
      // A farm of the state directory keeps its plans there itself.
      resolver_({access_of(options_), machine_of(options_), DiskCache::kBytesMaxDefault,
                 !options_.farm.empty() && disk != Disk::kNone, store_of(state_)}) {}

PlanSource::~PlanSource() = default;

std::unique_ptr<PlanSource> PlanSource::beside(Progress* progress,
                                               std::function<Status()> on_wait) const {
  FarmOptions options = options_;
  if (client_) options.farm = client_->endpoint();
  auto other = std::make_unique<PlanSource>(std::move(options), budget_, progress, disk_use_);
  other->on_wait_ = std::move(on_wait);
  return other;
}

Status PlanSource::tend() { return own_ ? own_->tend() : Status(); }

Result<std::string> PlanSource::trace(uint64_t job) {
  if (!client_) return common::unavailable("no farm was asked");
  return client_->trace(job);
}

Status PlanSource::connect(const std::string& endpoint) {
  LFARM_ASSIGN_OR_RETURN(FarmClientOptions options, client_options(access_of(options_), endpoint));
  if (own_) options.connect_ms_max = kOwnFarmConnectMs;
  options.on_wait = [this]() -> Status {
    LFARM_RETURN_IF_ERROR(check_stop());
    if (on_wait_) LFARM_RETURN_IF_ERROR(on_wait_());
    return tend();
  };
  LFARM_ASSIGN_OR_RETURN(client_, FarmClient::connect(std::move(options)));
  return {};
}

// An error where this machine is no such target. Looks once.
Status PlanSource::find_own_device() {
  if (!own_device_.empty()) return {};
  constexpr const char* kElsewhere = "; a farm that has such workers is named with --farm";
  FarmOptions here = options_;
  if (!options_.target.empty() && options_.device == "auto") {
    here.device = common::family_of(options_.target);
  }
  auto device = device_of(here);
  if (!device.ok()) return common::invalid_input(cat(device.error().message, kElsewhere));
  if (options_.target.empty() || common::is_target(device->target.name, options_.target)) {
    own_device_ = device->name;
    return {};
  }
  return common::invalid_input(cat("this machine makes plans for ", device->target.name,
                                   ", not for ", options_.target, kElsewhere));
}

// Starts a farm of our own, or joins one that `lfarm up` started meanwhile. False when another
// process runs a farm for itself: its end has been waited for, for a while.
Result<bool> PlanSource::start_or_join() {
  if (std::string endpoint = running_farm(state_); !endpoint.empty()) {
    LFARM_RETURN_IF_ERROR(connect(endpoint));
    return true;
  }
  FarmProcessOptions options;
  options.state = state_;
  options.listen = own_endpoint(state_);
  options.endpoint_file = state_.private_endpoint_file();
  LFARM_RETURN_IF_ERROR(find_own_device());
  options.device = own_device_;
  options.gpu = common::device_number(options_.device);
  options.workers = options_.workers;
  LFARM_ASSIGN_OR_RETURN(own_, FarmProcesses::start(std::move(options)));
  if (own_) {
    LFARM_RETURN_IF_ERROR(connect(own_->endpoint()));
    return true;
  }
  LFARM_RETURN_IF_ERROR(check_stop());
  std::this_thread::sleep_for(kLockPause);
  return false;
}

Result<std::string> PlanSource::require_farm() {
  if (!client_ && !options_.farm.empty()) LFARM_RETURN_IF_ERROR(connect(options_.farm));
  bool said = false;
  while (!client_) {
    LFARM_ASSIGN_OR_RETURN(bool there, start_or_join());
    if (!there && !said) progress_->stage(cat("waiting for another lfarm on ", state_.path));
    said = true;
  }
  return client_->endpoint();
}

Result<std::optional<PulledPlan>> PlanSource::find_newer(const PulledPlan& plan,
                                                         const std::function<Status()>& on_wait) {
  FarmAccess access = access_of(options_);
  LFARM_ASSIGN_OR_RETURN(client_, clients::connect_to_farm(access, on_wait));
  LFARM_ASSIGN_OR_RETURN(WatchedPlan newer, resolver_.pull(*client_, plan.plan.key, plan.id));
  return std::move(newer.plan);
}

std::string model_name(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path file = std::filesystem::absolute(path, ignored).lexically_normal();
  std::string name = file.stem().string();
  if (name == "model") name = file.parent_path().filename().string();
  return common::is_clean_line(name) ? name : "";
}

Result<CompiledPlan> PlanSource::obtain(const common::Graph& graph, const std::string& name) {
  CompiledPlan out;
  LapClock clock(&out.stages);
  LFARM_ASSIGN_OR_RETURN(common::Target target, target_of(options_));
  common::PlanKey key = common::plan_key_of(graph, target, budget_.policy.text());
  clock.lap("hash");
  PlanQuery query = query_of(graph, key, name);
  bool may_be_on_disk = disk_use_ == Disk::kUse && !options_.farm.empty() && !client_ &&
                        !common::is_family(target.name);
  auto on_disk = may_be_on_disk ? resolver_.find_on_disk(key) : std::nullopt;
  if (on_disk && query.is_enough(*on_disk)) {
    clock.lap("look up");
    out.pulled = std::move(*on_disk);
    out.is_from_disk = true;
    return out;
  }
  if (!client_) {
    std::string endpoint = options_.farm.empty() ? running_farm(state_) : options_.farm;
    if (!endpoint.empty()) {
      LFARM_RETURN_IF_ERROR(connect(endpoint));
      clock.lap("connect");
    }
  }
  bool said = false;
  while (!client_) {
    LFARM_ASSIGN_OR_RETURN(auto cached, resolver_.find_in_store(key));
    clock.lap("look up");
    if (cached && query.is_enough(*cached)) {
      out.pulled = std::move(*cached);
      return out;
    }
    LFARM_RETURN_IF_ERROR(find_own_device());
    if (!said) progress_->stage(cat("starting a farm on ", state_.path));
    LFARM_ASSIGN_OR_RETURN(bool there, start_or_join());
    if (!there && !said) progress_->stage(cat("waiting for another lfarm on ", state_.path));
    said = true;
    clock.lap("start farm");
  }
  bool is_searched = false;
  PlanWay way;
  way.on_answered = [&] { clock.lap("pull"); };
  way.on_search = [&] { is_searched = true; };
  LFARM_ASSIGN_OR_RETURN(SharedPlan found, ask_farm(std::move(query), std::move(way)));
  if (is_searched) clock.lap("farm");
  out.pulled = *found;
  return out;
}

PlanQuery PlanSource::query_of(const common::Graph& graph, const common::PlanKey& key,
                               const std::string& name) const {
  PlanQuery query;
  SubmitRequest& search = query.search;
  search.key = key;
  search.budget_candidates = static_cast<uint64_t>(budget_.candidates);
  search.budget_ms = static_cast<uint64_t>(budget_.seconds * 1000);
  search.seed = budget_.seed;
  search.in_flight = in_flight_of(budget_.in_flight);
  search.only_reverify = budget_.only_reverify;
  search.force = budget_.force;
  search.priority = static_cast<uint32_t>(budget_.priority);
  search.takes_first = budget_.takes_first;
  search.name = budget_.name.empty() ? name : budget_.name;
  query.graph = [&graph] { return common::encode_graph(graph_for_farm(graph)); };
  // An interim plan is enough to run a model, and the farm's search goes on.
  query.takes_interim = disk_use_ == Disk::kUse;
  query.takes_neighbour = true;
  return query;
}

Result<SharedPlan> PlanSource::ask_farm(PlanQuery query, PlanWay way) {
  uint64_t job = 0;
  way.on_accepted = [&job](uint64_t id) { job = id; };
  way.on_progress = [&](const common::Progress& progress) {
    progress_->update(progress, query.search.budget_ms);
  };
  // A farm of this process's own ends with it, so that the search is now or never.
  query.takes_neighbour = own_ == nullptr;
  auto found = resolver_.ask(*client_, query, nullptr, way);
  if (own_ && found.ok() && (*found)->facts.standing == common::Standing::kNeighbour) {
    query.search.force = true;
    found = resolver_.search(*client_, query, way);
  }
  progress_->clear();
  if (!found.ok() && stop_signal() != 0 && job != 0 && !own_) {
    return common::internal_error(cat(found.error().message, "; job ", job,
                                      " goes on at the farm ('lfarm cancel ", job, "' stops it)"));
  }
  return found;
}

}  // namespace clients
