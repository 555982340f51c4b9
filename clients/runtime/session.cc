#include "clients/runtime/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "clients/runtime/live_link.h"
#include "clients/runtime/model/instance.h"
#include "common/base/cat.h"
#include "common/base/log.h"
#include "common/ir/hlir/graph_hash.h"
#include "common/runtime/device/devices.h"
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

void PlanRequest::offer(SharedPlan plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  status_ = {};
  bool is_same = plan_ && plan_->id == plan->id;
  if (is_same || withdrawn_.contains(plan->id)) return;
  given_.push_back(plan->id);
  plan_ = std::move(plan);
  changes_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
}

void PlanRequest::fail(Status status, bool is_over) {
  std::lock_guard<std::mutex> lock(mutex_);
  is_over_ = is_over;
  if (!plan_) status_ = std::move(status);
  changed_.notify_all();
}

SharedPlan PlanRequest::withdraw(const common::RevocationList& revoked) {
  std::lock_guard<std::mutex> lock(mutex_);
  size_t before = withdrawn_.size();
  for (const common::Digest& id : given_) {
    if (revoked.holds(id)) withdrawn_.insert(id);
  }
  if (withdrawn_.size() == before) return nullptr;
  changes_.fetch_add(1, std::memory_order_release);
  if (!plan_ || !withdrawn_.contains(plan_->id)) return nullptr;
  is_over_ = false;
  return std::exchange(plan_, nullptr);
}

bool PlanRequest::is_withdrawn(const common::Digest& plan) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return withdrawn_.contains(plan);
}

// ---- Session -----------------------------------------------------------------------------------

Session::Session(SessionOptions options, std::unique_ptr<common::Device> device, int threads)
    : options_(std::move(options)),
      device_(std::move(device)),
      prepared_({.directory = options_.access.state.prepared_weights()}),
      resolver_({options_.access,
                 common::machine_class_of(common::family_of(device_->target().name), threads,
                                          device_->ordinal()),
                 options_.cache_bytes}),
      negatives_(options_.access.state.negatives()) {}

Result<std::shared_ptr<Session>> Session::open(SessionOptions options) {
  if (!common::is_policy(options.policy.numerics)) {
    return common::invalid_input(cat("numerics \"", options.policy.numerics,
                                     "\" are unknown; \"strict\" and \"relaxed\" are there"));
  }
  int threads = options.threads > 0 ? options.threads : default_threads();
  LFARM_ASSIGN_OR_RETURN(
      auto device, common::open_device(options.device, threads, std::move(options.allocator)));
  return std::shared_ptr<Session>(new Session(std::move(options), std::move(device), threads));
}

Session::~Session() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
    closing_.notify_all();
  }
  // Before the fetchers, which it starts again.
  if (link_) link_->stop();
  for (auto& [key, request] : requests_) {
    if (request->fetcher_.joinable()) request->fetcher_.join();
  }
}

PlanKey Session::key_of(const common::Digest& graph_hash) const {
  return {graph_hash, device_->target(), options_.policy.text(),
          std::string(common::kCompilerEpoch)};
}

std::shared_ptr<const PlanRequest> Session::request(const common::Graph& graph,
                                                    const std::string& name) {
  return request(key_of(common::graph_hash(graph)), &graph, name);
}

std::shared_ptr<const PlanRequest> Session::request(const common::Digest& graph_hash) {
  return request(key_of(graph_hash), nullptr, "");
}

std::shared_ptr<const PlanRequest> Session::request(const PlanKey& key, const common::Graph* graph,
                                                    const std::string& name) {
  common::Digest id = key.digest();
  // What nobody may search for is another request.
  if (graph == nullptr) id = common::Hasher().text("without graph").digest(id).finish();
  std::shared_ptr<PlanRequest> request;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& known = requests_[id];
    if (!known) {
      known = std::make_shared<PlanRequest>();
      known->key_ = key;
      known->name_ = name;
      if (graph != nullptr) known->graph_ = graph_for_farm(*graph);
    }
    request = known;
  }
  // A slow disk keeps only those waiting who ask for this plan.
  std::call_once(request->looked_, [&] { look_on_disk(request.get()); });
  return request;
}

void Session::look_on_disk(PlanRequest* request) {
  SharedPlan plan = find_on_disk(request->key_);
  if (plan) request->offer(plan);
  common::log_info(plan ? "a plan lies on this machine's disk" : "the farm is asked for a plan",
                   {{"key", request->key_.digest().short_hex()}});
  std::lock_guard<std::mutex> lock(mutex_);
  if (!link_) link_ = std::make_unique<LiveLink>(*this);
  link_->wake();
  if (!plan || (request->graph_ && !query_of(*request).is_enough(*plan))) start_fetching(request);
}

void Session::start_fetching(PlanRequest* request) {
  if (request->is_fetching_.exchange(true)) return;
  if (request->fetcher_.joinable()) request->fetcher_.join();
  request->fetcher_ = std::thread([this, request] { fetch(request); });
}

std::vector<std::shared_ptr<PlanRequest>> Session::requests() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<PlanRequest>> all;
  for (const auto& [id, request] : requests_) all.push_back(request);
  return all;
}

void Session::withdraw(const PlanTrust& trust) {
  for (const std::shared_ptr<PlanRequest>& request : requests()) {
    SharedPlan plan = request->withdraw(trust.revoked);
    if (!plan) continue;
    common::log_warning(
        cat("plan ", plan->id.short_hex(), " was revoked by its farm, and is used no more"));
    resolver_.forget(plan->plan.key, trust);
    std::lock_guard<std::mutex> lock(mutex_);
    if (!is_closing_) start_fetching(request.get());
  }
}

// ---- Fetching ----------------------------------------------------------------------------------

SharedPlan Session::find_on_disk(const PlanKey& key) {
  auto plan = resolver_.find_on_disk(key);
  return plan ? std::make_shared<const PulledPlan>(std::move(*plan)) : nullptr;
}

// A plan is enough whose search has ended on this machine's class and was given as much as this
// session would give it.
PlanQuery Session::query_of(const PlanRequest& request) const {
  PlanQuery query;
  query.search.key = request.key_;
  query.search.name = request.name_;
  query.search.budget_candidates = options_.budget_candidates;
  query.search.budget_ms = options_.budget_ms;
  query.takes_any_seed = true;
  if (request.graph_) {
    query.graph = [graph = &*request.graph_] { return common::encode_graph(*graph); };
  }
  return query;
}

void Session::fetch(PlanRequest* request) {
  milliseconds pause_for = kRetryFirst;
  for (bool is_first = true;; is_first = false) {
    Status fetched = fetch_once(request);
    if (fetched.ok()) break;
    bool again = may_pass(fetched.error().code);
    // Of a graph whose hash alone is known the caller gets the error.
    bool is_run = request->graph_ && !request->plan() && check_open().ok();
    common::log(is_run && is_first ? common::LogLevel::kWarning : common::LogLevel::kInfo,
                cat(is_run ? "a graph runs without a plan" : "there is no plan",
                    again ? " for now: " : ": ", fetched.error().message),
                {{"model", request->name_}, {"key", request->key_.digest().short_hex()}});
    request->fail(fetched, !again);
    if (!again || !pause(pause_for)) break;
    pause_for = std::min(2 * pause_for, kRetryLast);
  }
  request->is_fetching_ = false;
}

// Success once there is a plan that no search need follow.
Status Session::fetch_once(PlanRequest* request) {
  common::Digest what =
      common::Hasher().text(options_.access.endpoint).digest(request->key_.digest()).finish();
  auto flight = resolver_.try_fly(what);
  while (!flight) {
    if (!pause(kFlightPause)) return check_open();
    flight = resolver_.try_fly(what);
  }
  // Who had the flight before may have brought it.
  if (SharedPlan plan = find_on_disk(request->key_)) {
    request->offer(plan);
    if (!request->graph_ || query_of(*request).is_enough(*plan)) return {};
  }
  if (auto refused = negatives_.find(what)) return *refused;
  Status asked = ask_farm(request);
  if (!asked.ok() && asked.error().code == Code::kUnsupported) {
    negatives_.note(what, asked.error(), Negatives::kUnsupportedS);
  }
  return asked;
}

Status Session::ask_farm(PlanRequest* request) {
  LFARM_ASSIGN_OR_RETURN(auto farm,
                         connect_to_farm(options_.access, [this] { return check_open(); }));
  link_->wake();  // The farm is there.
  PlanWay way;
  way.on_better = [request](SharedPlan plan) { request->offer(std::move(plan)); };
  uint64_t job = 0;
  way.on_accepted = [&job](uint64_t id) { job = id; };
  auto found = resolver_.ask(*farm, query_of(*request), request->plan(), way);
  if (!found.ok()) {
    // Sent, and not waited for: the session closes. A job that others wait for goes on.
    if (job != 0 && !keeps_searches_ && !check_open().ok()) (void)farm->cancel(job);
    return found.error();
  }
  common::log_info("the farm gave a plan", {{"key", request->key_.digest().short_hex()}});
  request->offer(std::move(*found));
  return {};
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
