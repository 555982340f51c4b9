#include "clients/runtime/session.h"

#include <algorithm>
#include <chrono>

#include "clients/runtime/instance.h"
#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/ir/graph_hash.h"
#include "common/runtime/devices.h"
#include "common/runtime/machine_class.h"
#include "common/wire/ir_codec.h"

namespace clients {

using common::cat;
using common::Code;
using common::Error;
using common::PlanKey;
using common::Result;
using common::Status;
using std::chrono::milliseconds;

namespace {

// Between looks at the disk while another process fetches the plan.
constexpr milliseconds kFlightPause{20};
// Between tries of a farm that is away, which double up to the second.
constexpr milliseconds kRetryFirst{1000};
constexpr milliseconds kRetryLast{60'000};

// Whether asking again later may help.
bool may_pass(Code code) {
  return code == Code::kUnavailable || code == Code::kTimedOut || code == Code::kCorrupt;
}

bool is_neighbours(const PulledPlan& plan) {
  return plan.facts.standing == common::Standing::kNeighbour;
}

SharedPlan share(PulledPlan plan) { return std::make_shared<const PulledPlan>(std::move(plan)); }

}  // namespace

// ---- PlanRequest -------------------------------------------------------------------------------

SharedPlan PlanRequest::plan() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return plan_;
}

SharedPlan PlanRequest::wait(milliseconds time) const {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, time, [this] { return plan_ != nullptr || is_over_ || !status_.ok(); });
  return plan_;
}

Status PlanRequest::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void PlanRequest::succeed(SharedPlan plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  plan_ = std::move(plan);
  status_ = {};
  is_over_ = true;
  changed_.notify_all();
}

void PlanRequest::fail(Status status, bool is_over) {
  std::lock_guard<std::mutex> lock(mutex_);
  status_ = std::move(status);
  is_over_ = is_over;
  changed_.notify_all();
}

void PlanRequest::withdraw() {
  std::lock_guard<std::mutex> lock(mutex_);
  plan_ = nullptr;
  is_over_ = false;
  ++withdrawals_;
}

// ---- Session -----------------------------------------------------------------------------------

Session::Session(SessionOptions options, std::unique_ptr<common::Device> device, int threads)
    : options_(std::move(options)),
      device_(std::move(device)),
      machine_(common::machine_class_of(common::family_of(device_->target().name), threads)),
      disk_(options_.access.state.client_plans(), options_.cache_bytes),
      met_(options_.access.state.met_farms()),
      negatives_(options_.access.state.negatives()) {}

Result<std::shared_ptr<Session>> Session::open(SessionOptions options) {
  if (!common::is_policy(options.numerics)) {
    return common::invalid_input(cat("numerics \"", options.numerics,
                                     "\" are unknown; \"strict\" and \"relaxed\" are there"));
  }
  int threads = options.threads > 0 ? options.threads : default_threads();
  LFARM_ASSIGN_OR_RETURN(auto device, common::open_device(options.device, threads));
  return std::shared_ptr<Session>(new Session(std::move(options), std::move(device), threads));
}

Session::~Session() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
    closing_.notify_all();
  }
  // Before the fetchers, which it starts again.
  if (watcher_.joinable()) watcher_.join();
  for (auto& [key, request] : requests_) {
    if (request->fetcher_.joinable()) request->fetcher_.join();
  }
}

PlanKey Session::key_of(const common::Digest& graph_hash) const {
  return {graph_hash, device_->target(), options_.numerics, std::string(common::kCompilerEpoch)};
}

std::shared_ptr<const PlanRequest> Session::request(const common::Graph& graph) {
  return request(key_of(common::graph_hash(graph)), &graph);
}

std::shared_ptr<const PlanRequest> Session::request(const common::Digest& graph_hash) {
  return request(key_of(graph_hash), nullptr);
}

std::shared_ptr<const PlanRequest> Session::request(const PlanKey& key,
                                                    const common::Graph* graph) {
  common::Digest id = key.digest();
  // What nobody may search for is another request.
  if (graph == nullptr) id = common::Hasher().text("without graph").digest(id).finish();
  std::lock_guard<std::mutex> lock(mutex_);
  auto& request = requests_[id];
  if (request) return request;
  request = std::make_shared<PlanRequest>();
  request->key_ = key;
  // Canonical, so that it is the same blob whatever the model's names are.
  if (graph != nullptr) request->graph_ = common::canonical(*graph);
  if (options_.revocations_ms != 0 && !watcher_.joinable()) {
    watcher_ = std::thread([this] { watch_revocations(); });
  }
  if (SharedPlan plan = find_on_disk(key)) {
    bool is_provisional = is_neighbours(*plan);
    request->succeed(std::move(plan));
    // There may be one of this machine's class by now.
    if (!is_provisional) return request;
  }
  start_fetching(request.get());
  return request;
}

void Session::start_fetching(PlanRequest* request) {
  if (request->fetcher_.joinable()) request->fetcher_.join();
  request->fetcher_ =
      std::thread([this, request] { fetch(request->key_, request->graph_, request); });
}

// ---- Revocations -------------------------------------------------------------------------------

// One connection, held for as long as it lasts: a question and an answer of a few bytes.
void Session::watch_revocations() {
  std::unique_ptr<FarmClient> farm;
  while (pause(milliseconds(options_.revocations_ms))) {
    Status looked = look_for_revocations(&farm);
    // A farm that is away revokes nothing, and is looked for again.
    if (!looked.ok()) farm.reset();
  }
}

Status Session::look_for_revocations(std::unique_ptr<FarmClient>* farm) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    bool has_plans = std::any_of(requests_.begin(), requests_.end(),
                                 [](const auto& entry) { return entry.second->plan() != nullptr; });
    if (!has_plans) return {};
  }
  if (!*farm) {
    LFARM_ASSIGN_OR_RETURN(*farm,
                           connect_to_farm(options_.access, [this] { return check_open(); }));
  }
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, (*farm)->trust());
  LFARM_ASSIGN_OR_RETURN(trust.revoked, (*farm)->revocations());
  if (!trust.revoked.plans.empty()) withdraw(trust);
  return {};
}

void Session::withdraw(const PlanTrust& trust) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_closing_) return;
  for (auto& [digest, request] : requests_) {
    SharedPlan plan = request->plan();
    if (!plan || !trust.revoked.holds(plan->id)) continue;
    common::log_warning(
        cat("plan ", plan->id.short_hex(), " was revoked by its farm, and is used no more"));
    disk_.forget(plan->plan.key, trust, machine_);
    disk_.forget(plan->plan.key, trust);
    request->withdraw();
    start_fetching(request.get());
  }
}

// ---- Fetching ----------------------------------------------------------------------------------

// Null also when the farm was never met, so that nobody knows whose plans to take.
SharedPlan Session::find_on_disk(PlanKey key) {
  auto farm = met_.find(options_.access.endpoint);
  if (!farm) return nullptr;
  auto trust = trust_of_met(options_.access, *farm);
  key.epoch = farm->epoch;
  auto plan = trust.ok() ? disk_.find(key, *trust, machine_) : trust.error();
  // Imported, or kept by a release before machine classes.
  if (plan.ok() && !*plan) plan = disk_.find(key, *trust);
  if (!plan.ok()) {
    common::log_warning(plan.error().message);
    return nullptr;
  }
  return *plan ? share(std::move(**plan)) : nullptr;
}

void Session::fetch(const PlanKey& key, const MaybeGraph& graph, PlanRequest* request) {
  milliseconds pause_for = kRetryFirst;
  for (;;) {
    auto plan = fetch_once(key, graph);
    if (plan.ok()) {
      request->succeed(std::move(*plan));
      return;
    }
    bool again = may_pass(plan.error().code);
    request->fail(plan.error(), !again);
    if (!again || !pause(pause_for)) return;
    pause_for = std::min(2 * pause_for, kRetryLast);
  }
}

Result<SharedPlan> Session::fetch_once(const PlanKey& key, const MaybeGraph& graph) {
  common::Digest what =
      common::Hasher().text(options_.access.endpoint).digest(key.digest()).finish();
  auto flight = disk_.try_fly(what);
  while (!flight) {
    if (!pause(kFlightPause)) return check_open().error();
    flight = disk_.try_fly(what);
  }
  // Who had the flight before may have brought it.
  SharedPlan there = find_on_disk(key);
  if (there && !is_neighbours(*there)) return there;
  if (auto refused = negatives_.find(what)) return *refused;
  auto plan = ask_farm(key, graph);
  if (plan.ok()) return share(std::move(*plan));
  if (plan.error().code == Code::kUnsupported) {
    negatives_.note(what, plan.error(), Negatives::kUnsupportedS);
  }
  return plan.error();
}

Result<PulledPlan> Session::ask_farm(const PlanKey& key, const MaybeGraph& graph) {
  LFARM_ASSIGN_OR_RETURN(auto farm,
                         connect_to_farm(options_.access, [this] { return check_open(); }));
  LFARM_ASSIGN_OR_RETURN(PlanTrust trust, farm->trust());
  PlanKey theirs = key;
  theirs.epoch = farm->compiler_epoch();
  LFARM_ASSIGN_OR_RETURN(auto pulled, farm->pull(theirs, machine_));
  if (!pulled && !graph) {
    return common::unavailable(cat("the farm has no plan of graph ", key.graph_hash.short_hex(),
                                   " for ", key.target.name, ": submit its model there first"));
  }
  if (!pulled) {
    SubmitRequest submit;
    submit.key = theirs;
    submit.machine = machine_;
    submit.graph = common::encode_graph(*graph);
    submit.budget_candidates = options_.budget_candidates;
    submit.budget_ms = options_.budget_ms;
    LFARM_ASSIGN_OR_RETURN(pulled, farm->submit(
                                       submit, [](uint64_t) {}, [](const auto&) {}));
  }
  // A disk that takes nothing costs the next start a fetch, and this one nothing.
  Status kept = disk_.put(*pulled, trust, machine_);
  if (kept.ok()) {
    kept = met_.remember(options_.access.endpoint, {trust.signer, trust.tenant, theirs.epoch});
  }
  if (!kept.ok()) common::log_warning(cat("a plan is not kept: ", kept.error().message));
  return std::move(*pulled);
}

bool Session::pause(milliseconds time) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !closing_.wait_for(lock, time, [this] { return is_closing_; });
}

Status Session::check_open() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_closing_) return Error{Code::kInternal, "the session was closed"};
  return {};
}

}  // namespace clients
