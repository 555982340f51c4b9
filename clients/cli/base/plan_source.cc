#include "clients/cli/base/plan_source.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include "clients/cli/base/plan_cache.h"
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

FarmAccess access_of(const FarmOptions& options) {
  return {options.farm, options.server_key, options.keys, options.trust, {options.state}};
}

}  // namespace

Result<std::unique_ptr<FarmClient>> connect_to_farm(const FarmOptions& options) {
  return connect_to_farm(access_of(options), check_stop);
}

PlanSource::PlanSource(FarmOptions options, BudgetOptions budget, Progress* progress, Disk disk)
    : options_(std::move(options)),
      budget_(std::move(budget)),
      progress_(progress),
      state_{options_.state},
      machine_(machine_of(options_)),
      disk_use_(disk),
      disk_(state_.client_plans()),
      met_(state_.met_farms()) {}

PlanSource::~PlanSource() = default;

Status PlanSource::tend() { return own_ ? own_->tend() : Status(); }

Status PlanSource::connect(const std::string& endpoint) {
  LFARM_ASSIGN_OR_RETURN(FarmClientOptions options, client_options(access_of(options_), endpoint));
  if (own_) options.connect_ms_max = kOwnFarmConnectMs;
  options.on_wait = [this]() -> Status {
    LFARM_RETURN_IF_ERROR(check_stop());
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
  if (!options_.target.empty()) here.device = common::family_of(options_.target);
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

Result<std::optional<PulledPlan>> PlanSource::find_in_cache(const common::PlanKey& key) {
  auto cache = PlanCache::open(state_);
  // Without a store there is nothing to find, and a damaged one is the coordinator's to mend.
  if (!cache.ok()) return std::optional<PulledPlan>();
  auto found = (*cache)->find(key, machine_);
  if (!found.ok() && found.error().code == common::Code::kCorrupt) {
    common::log_warning(cat("a cached plan is damaged: ", found.error().message));
    return std::optional<PulledPlan>();
  }
  return found;
}

std::optional<PulledPlan> PlanSource::find_on_disk(common::PlanKey key) {
  bool may_be_there = disk_use_ == Disk::kUse && !options_.farm.empty() && !client_ &&
                      !common::is_family(key.target.name);
  auto farm = may_be_there ? met_.find(options_.farm) : std::nullopt;
  if (!farm) return std::nullopt;
  auto trust = trust_of_met(access_of(options_), *farm);
  key.epoch = farm->epoch;
  auto found = trust.ok() ? disk_.find(key, *trust, machine_) : trust.error();
  // Imported, or kept by a release before machine classes.
  if (found.ok() && !*found) found = disk_.find(key, *trust);
  if (found.ok()) return std::move(*found);
  common::log_warning(found.error().message);
  return std::nullopt;
}

void PlanSource::keep_on_disk(const PulledPlan& plan) {
  // A farm of the state directory keeps its plans there itself.
  if (options_.farm.empty() || disk_use_ == Disk::kNone) return;
  auto trust = client_->trust();
  Status kept = trust.ok() ? disk_.put(plan, *trust, machine_) : Status(trust.error());
  if (kept.ok()) {
    kept = met_.remember(options_.farm, {trust->signer, trust->tenant, plan.plan.key.epoch});
  }
  if (!kept.ok()) common::log_warning(cat("a plan is not kept: ", kept.error().message));
}

// Whether no search is asked for: else the farm says whether an earlier one was given as much.
bool PlanSource::is_enough(const PulledPlan& plan) const {
  if (budget_.force) return false;
  // Whoever runs a model has an answer with it, and the farm's search goes on anyway.
  bool is_interim = plan.facts.standing == common::Standing::kInterim;
  if (is_interim && disk_use_ != Disk::kUse) return false;
  bool has_budget = budget_.candidates != 0 || budget_.seconds > 0;
  if (budget_.only_reverify || !has_budget) return true;
  return plan.plan.provenance.seed == budget_.seed &&
         was_given(plan.plan.provenance, static_cast<uint64_t>(budget_.candidates),
                   static_cast<uint64_t>(budget_.seconds * 1000));
}

Result<std::optional<PulledPlan>> PlanSource::find_newer(const PulledPlan& plan,
                                                         const std::function<Status()>& on_wait) {
  FarmAccess access = access_of(options_);
  LFARM_ASSIGN_OR_RETURN(client_, clients::connect_to_farm(access, on_wait));
  common::PlanKey key = plan.plan.key;
  key.epoch = client_->compiler_epoch();
  LFARM_ASSIGN_OR_RETURN(WatchedPlan newer, client_->pull_newer(key, machine_, plan.id));
  if (newer.plan) keep_on_disk(*newer.plan);
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
  common::PlanKey key = common::plan_key_of(graph, target, budget_.numerics);
  clock.lap("hash");
  auto on_disk = find_on_disk(key);
  if (on_disk && is_enough(*on_disk)) {
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
    LFARM_ASSIGN_OR_RETURN(auto cached, find_in_cache(key));
    clock.lap("look up");
    if (cached && is_enough(*cached)) {
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
  key.epoch = client_->compiler_epoch();
  // Which target a family is, only the farm knows.
  if (!common::is_family(target.name)) {
    LFARM_ASSIGN_OR_RETURN(auto pulled, client_->pull(key, machine_));
    clock.lap("pull");
    // A farm of this process's own ends with it, so that the search is now or never.
    bool is_right = pulled && (!own_ || pulled->facts.standing != common::Standing::kNeighbour);
    if (is_right && is_enough(*pulled)) {
      out.pulled = std::move(*pulled);
      keep_on_disk(out.pulled);
      return out;
    }
  }
  LFARM_ASSIGN_OR_RETURN(out.pulled, compile(graph, key, name));
  keep_on_disk(out.pulled);
  clock.lap("farm");
  return out;
}

Result<PulledPlan> PlanSource::compile(const common::Graph& graph, const common::PlanKey& key,
                                       const std::string& name) {
  SubmitRequest request;
  request.key = key;
  request.machine = machine_;
  // Canonical, so that it is the same blob whatever the model's names are.
  request.graph = common::encode_graph(common::canonical(graph));
  request.budget_candidates = static_cast<uint64_t>(budget_.candidates);
  request.budget_ms = static_cast<uint64_t>(budget_.seconds * 1000);
  request.seed = budget_.seed;
  request.in_flight = in_flight_of(budget_.in_flight);
  request.only_reverify = budget_.only_reverify;
  request.force = budget_.force;
  request.priority = static_cast<uint32_t>(budget_.priority);
  request.name = budget_.name.empty() ? name : budget_.name;
  uint64_t job = 0;
  auto submit = [&] {
    return client_->submit(
        request, [&job](uint64_t id) { job = id; },
        [&](const common::Progress& progress) { progress_->update(progress, request.budget_ms); });
  };
  auto found = submit();
  bool is_neighbour = found.ok() && found->facts.standing == common::Standing::kNeighbour;
  if (own_ && is_neighbour) {
    request.force = true;
    found = submit();
  }
  progress_->clear();
  if (!found.ok() && stop_signal() != 0 && job != 0 && !own_) {
    return common::internal_error(cat(found.error().message, "; job ", job,
                                      " goes on at the farm ('lfarm cancel ", job, "' stops it)"));
  }
  return found;
}

}  // namespace clients
