#include "coordinator/service/service.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/process/processors.h"
#include "common/wire/plan_names.h"
#include "common/wire/security.h"
#include "common/wire/socket.h"
#include "coordinator/service/job/environment.h"
#include "coordinator/service/jobs/job_table.h"
#include "coordinator/service/loop/file_watch.h"
#include "coordinator/service/loop/loop_calls.h"
#include "coordinator/service/message_router.h"
#include "coordinator/service/monitoring.h"
#include "coordinator/service/shard_turns.h"
#include "coordinator/service/signing/farm_signer.h"

namespace coordinator::service {

using common::cat;
using common::Result;
using common::Status;

namespace {

constexpr size_t kArrivalsAtOnce = 256;
// Rounds of arrivals before timers and proposals get their turn.
constexpr int kRoundsAtOnce = 16;
constexpr int kBusyWaitMs = 20;
constexpr int kIdleWaitMs = 250;
// Preparing a job takes seconds of one processor.
constexpr size_t kBackgroundThreadsMin = 2, kBackgroundThreadsMax = 8;
constexpr size_t kStepThreads = 2;
// They wait for searchers, one for each search that prepares or takes a step.
constexpr size_t kWaitThreads = 64;
constexpr std::chrono::seconds kMonitoringPatience{3};

struct Security {
  std::optional<common::KeyPair> keys;
  std::shared_ptr<common::Authenticator> authenticator;
};

std::string allow_file(const ServiceOptions& options) {
  return options.access.allow_file.empty() ? options.state + "/allow" : options.access.allow_file;
}

Result<common::AllowList> read_allow_list(const std::string& path) {
  auto text = common::read_file(path, common::kAllowFileBytesMax);
  if (!text.ok()) {
    return common::invalid_input(cat("no allow-list: ", text.error().message,
                                     "; 'lfarm keys grant KEY TENANT ROLE,ROLE' begins one"));
  }
  auto list = common::AllowList::parse(*text);
  if (list.ok()) return list;
  return common::invalid_input(cat(path, ": ", list.error().message));
}

Result<Security> secure(const ServiceOptions& options, common::WireContext& context) {
  Security security;
  if (!options.access.secure && common::is_local_endpoint(options.listen)) return security;
  LFARM_ASSIGN_OR_RETURN(common::AllowList allowed, read_allow_list(allow_file(options)));
  LFARM_ASSIGN_OR_RETURN(security.keys,
                         common::load_or_create_key_pair(options.state + "/farm.key"));
  LFARM_ASSIGN_OR_RETURN(security.authenticator,
                         common::Authenticator::start(context, std::move(allowed)));
  return security;
}

// Null where searches are in this process.
Result<std::unique_ptr<SearcherHub>> listen_for_searchers(const ServiceOptions& options,
                                                          common::WireContext& context,
                                                          const Security& security) {
  const SearcherOptions& searchers = options.searchers;
  if (searchers.listen.empty()) return std::unique_ptr<SearcherHub>();
  return SearcherHub::start(context, {searchers.listen, security.keys, security.authenticator},
                            searchers.silence_ms);
}

// The socket, with what keeps strangers out of it.
struct Wire {
  common::WireContext context;
  Security security;
  common::RouterSocket router;
  std::vector<common::Arrival> arrivals = {};
};

struct Disk {
  explicit Disk(std::unique_ptr<cache::Store> opened) : store(std::move(opened)), commits(*store) {}
  std::unique_ptr<cache::Store> store;
  Commits commits;
  Stamps stamps;
};

// The plans that are there, whose they are and who is told of them.
struct Plans {
  Plans(const ServiceOptions& options, const SharedSigner& signer, const SharedTierSetup& others,
        cache::Store& store, Outbox& outbox, const common::Clock& clock, Sharding* sharding)
      : tenants(store),
        plans(store, signer, tenants, options.access.earlier_keys),
        watches(plans, outbox, clock, options.times.news_ms, options.limits.clients_max),
        shared(others, signer, store, plans, tenants, clock, sharding) {}
  Tenants tenants;
  PlanRepository plans;
  PlanWatches watches;
  SharedTier shared;
};

// The workers, and what is given to them.
struct Farm {
  Farm(const ServiceOptions& options, const common::Incarnation& incarnation, cache::Store& store,
       Outbox& outbox, const common::Clock& clock)
      : blobs(options.limits.graph_bytes_max),
        dispatcher({options.farm, incarnation, options.times.run_limit_ms,
                    !options.listen.starts_with("ipc://")},
                   clock, store, meters),
        workers(dispatcher, outbox, clock, options.times.heartbeat_ms) {}
  Meters meters;
  BlobTable blobs;
  Dispatcher dispatcher;
  Workers workers;
};

// How other threads reach the one that serves.
struct Reach {
  std::atomic<bool> stopping{false};
  common::Waker stop_waker;
  LoopCalls calls;
  std::atomic<int64_t> turned_ns{0};
};

}  // namespace

// Members are destroyed in reverse: the threads end first, and whoever uses another goes before it.
struct Service::State {
  ServiceOptions options;
  common::SteadyClock clock;
  Wire wire;
  Disk disk;
  Outbox outbox;
  ShardTurns shards;
  Plans plans;
  Farm farm;
  Environment environment;
  JobTable jobs;
  MessageRouter message_router;
  FileWatch allow_watch;
  Reach reach;
  Threads threads;
  Backups backups;

  struct Parts {
    Wire wire;
    std::unique_ptr<cache::Store> store;
    SharedSigner signer;
    common::Incarnation incarnation;
    SharedTierSetup shared;
    std::unique_ptr<SearcherHub> searchers;
  };
  State(ServiceOptions its_options, Parts parts)
      : options(std::move(its_options)),
        wire(std::move(parts.wire)),
        disk(std::move(parts.store)),
        outbox(wire.router, options.limits.backlog_bytes),
        shards(options, parts.shared, parts.signer->authority(), parts.incarnation, clock),
        plans(options, parts.signer, parts.shared, *disk.store, outbox, clock, shards.sharding()),
        farm(options, parts.incarnation, *disk.store, outbox, clock),
        environment{options,         clock,         *disk.store,
                    disk.commits,    outbox,        farm.blobs,
                    farm.dispatcher, farm.workers,  threads,
                    plans.plans,     plans.watches, plans.shared,
                    plans.tenants,   disk.stamps,   {farm.meters, backups, wire.router.counters()}},
        jobs(environment),
        message_router(environment, jobs, cat(options.name, '-', parts.incarnation.hex())),
        allow_watch(allow_file(options)),
        threads{std::move(parts.searchers),
                Background(std::clamp<size_t>(common::usable_processors(), kBackgroundThreadsMin,
                                              kBackgroundThreadsMax)),
                Background(kStepThreads, true),
                Background(options.searchers.listen.empty() ? 0 : kWaitThreads)},
        backups(options.backups, *disk.store, threads.background) {
    farm.dispatcher.connect(farm.workers, jobs);
  }
  // Threads that wait for searchers wait no longer.
  ~State() { close_searchers(); }

  void close_searchers() {
    if (threads.searchers) threads.searchers->close();
  }
  bool drain();
  void turn();
  Status reload_allow_list();
  Status reload_policies();
  int wait_ms() const;
  void wind_up();
  std::optional<std::string> ask(std::function<std::string(const StatusSources&)> question);
};

Service::Service(std::unique_ptr<State> state) : state_(std::move(state)) {}
Service::~Service() = default;

Result<std::unique_ptr<cache::Store>> Service::open_store(const ServiceOptions& options) {
  LFARM_RETURN_IF_ERROR(common::make_directories(options.state));
  cache::StoreOptions store_options;
  store_options.max_bytes = options.kept.store_bytes_max;
  store_options.max_measurements = options.kept.measurements_max;
  store_options.collects_in_background = true;
  store_options.names_of = [](std::string_view bytes) { return common::plan_names(bytes); };
  return cache::Store::open(options.state, store_options);
}

Result<std::unique_ptr<Service>> Service::create(ServiceOptions options,
                                                 std::unique_ptr<cache::Store> store) {
  LFARM_CHECK(options.create_search != nullptr, "no search to serve");
  LFARM_RETURN_IF_ERROR(common::make_directories(options.state));
  LFARM_RETURN_IF_ERROR(ShardTurns::check(options));
  LFARM_ASSIGN_OR_RETURN(SharedTierSetup shared, check_shared_tier(options.shared));
  common::WireContext context;
  LFARM_ASSIGN_OR_RETURN(Security security, secure(options, context));
  // Bound before the store is opened: a taken port is the clearer error when both are taken.
  LFARM_ASSIGN_OR_RETURN(
      common::RouterSocket router,
      common::RouterSocket::bind(context, {options.listen, security.keys, security.authenticator,
                                           nullptr, options.limits.peer_queue_bytes,
                                           options.limits.queue_bytes, options.protocol}));
  if (store == nullptr) {
    LFARM_ASSIGN_OR_RETURN(store, open_store(options));
  }
  LFARM_ASSIGN_OR_RETURN(SharedSigner signer, signer_of(options.state, options.access));
  LFARM_ASSIGN_OR_RETURN(std::unique_ptr<SearcherHub> searchers,
                         listen_for_searchers(options, context, security));
  auto state = std::make_unique<State>(
      std::move(options), State::Parts{{std::move(context), std::move(security), std::move(router)},
                                       std::move(store),
                                       std::move(signer),
                                       common::Incarnation::draw(),
                                       std::move(shared),
                                       std::move(searchers)});
  LFARM_RETURN_IF_ERROR(state->plans.plans.load_revocations());
  LFARM_RETURN_IF_ERROR(state->plans.shared.begin());
  bool is_sharded = state->shards.sharding() != nullptr;
  LFARM_RETURN_IF_ERROR(is_sharded ? state->jobs.begin_without_journals() : state->jobs.resume());
  state->shards.start(state->options, state->wire.router.endpoint(), state->wire.security.keys,
                      state->disk.commits);
  return std::unique_ptr<Service>(new Service(std::move(state)));
}

const std::string& Service::endpoint() const { return state_->wire.router.endpoint(); }

std::string Service::searchers_endpoint() const {
  const auto& searchers = state_->threads.searchers;
  return searchers ? searchers->endpoint() : "";
}

const std::string& Service::public_key() const {
  static const std::string kNone;
  return state_->wire.security.keys ? state_->wire.security.keys->public_key : kNone;
}

common::PublicKey Service::signing_key() const { return state_->plans.plans.public_key(); }

Status Service::run(int watched_fd, const std::function<void()>& on_readable) {
  State& state = *state_;
  common::Poller poller;
  poller.watch(state.wire.router);
  size_t background = poller.watch_fd(state.threads.background.fd());
  size_t steps = poller.watch_fd(state.threads.steps.fd());
  size_t waits = poller.watch_fd(state.threads.waits.fd());
  size_t commits = poller.watch_fd(state.disk.commits.fd());
  size_t calls = poller.watch_fd(state.reach.calls.fd());
  poller.watch_fd(state.reach.stop_waker.fd());
  if (state.plans.shared.enabled()) {
    poller.watch_fd(state.plans.shared.answers_fd());
    poller.watch_fd(state.plans.shared.pushes_fd());
    int shards = state.plans.shared.shards_fd();
    if (shards >= 0) poller.watch_fd(shards);
  }
  size_t watched = watched_fd >= 0 ? poller.watch_fd(watched_fd) : SIZE_MAX;
  while (!state.reach.stopping) {
    LFARM_ASSIGN_OR_RETURN([[maybe_unused]] size_t ready, poller.wait(state.wait_ms()));
    int64_t began_ns = state.clock.now_ns();
    if (watched != SIZE_MAX && poller.ready(watched)) on_readable();
    if (poller.ready(background)) state.threads.background.deliver();
    if (poller.ready(steps)) state.threads.steps.deliver();
    if (poller.ready(waits)) state.threads.waits.deliver();
    if (poller.ready(commits)) state.disk.commits.deliver();
    state.reach.turned_ns = state.clock.now_ns();
    state.plans.shared.deliver();
    state.turn();
    if (poller.ready(calls)) state.reach.calls.deliver();
    state.farm.meters.loop_turned(static_cast<double>(state.clock.now_ns() - began_ns) * 1e-9);
  }
  state.wind_up();
  return {};
}

void Service::stop() {
  state_->reach.stopping = true;
  state_->reach.stop_waker.wake();
}

void Service::reload_allow_list() { state_->allow_watch.expire(); }

bool Service::is_busy() const {
  const Threads& threads = state_->threads;
  return threads.background.busy() || threads.steps.busy() || threads.waits.busy();
}

std::optional<std::string> Service::State::ask(
    std::function<std::string(const StatusSources&)> question) {
  return reach.calls.ask(
      [this, question = std::move(question)] {
        static const common::Principal kMonitoring = common::local_principal();
        return question({environment, jobs, message_router.clients(),
                         message_router.coordinator_id(), kMonitoring});
      },
      kMonitoringPatience);
}

std::optional<std::string> Service::ask(std::function<std::string(const StatusSources&)> question) {
  return state_->ask(std::move(question));
}

cache::Store& Service::store() { return *state_->disk.store; }

std::optional<std::string> Service::status(common::StatusTopic topic) {
  return state_->ask([topic](const StatusSources& sources) { return status_json(topic, sources); });
}

std::optional<std::string> Service::metrics() { return state_->ask(metrics_text); }

std::optional<std::string> Service::demand(const std::string& target_prefix) {
  return state_->ask([target_prefix](const StatusSources& sources) {
    return demand_json(sources, target_prefix);
  });
}

int64_t Service::silent_ms() const {
  int64_t turned_ns = state_->reach.turned_ns;
  return turned_ns == 0 ? 0 : (state_->clock.now_ns() - turned_ns) / 1'000'000;
}

// Whoever the new list does not name any more is gone before its next message.
Status Service::State::reload_allow_list() {
  LFARM_ASSIGN_OR_RETURN(common::AllowList allowed, read_allow_list(allow_watch.path()));
  size_t keys = allowed.size();
  plans.tenants.set_policies(allowed.policies());
  std::set<std::string> key_ids;
  for (const auto& [key, principal] : allowed.entries()) key_ids.insert(common::key_id_of(key));
  wire.security.authenticator->replace(std::move(allowed));
  std::vector<std::string> dropped = wire.router.drop_revoked();
  message_router.forget(dropped);
  jobs.keep_only(key_ids);
  common::log_info(cat("allow-list read: ", keys, " keys, ", dropped.size(), " peers dropped"));
  return {};
}

// Where nobody has keys, and a list is there all the same.
Status Service::State::reload_policies() {
  if (!common::file_exists(allow_watch.path())) return {};
  LFARM_ASSIGN_OR_RETURN(common::AllowList allowed, read_allow_list(allow_watch.path()));
  plans.tenants.set_policies(allowed.policies());
  return {};
}

// Messages first, then what they allow, then the clock: a slow coordinator must not declare its
// workers dead while their heartbeats wait in the socket.
void Service::State::turn() {
  if (allow_watch.changed(clock.now_ns())) {
    Status status = wire.security.authenticator ? reload_allow_list() : reload_policies();
    if (!status.ok()) {
      common::log_error(cat("the allow-list stays as it was: ", status.error().message));
    }
  }
  if (!disk.store->trouble().empty()) disk.commits.probe();
  outbox.flush();
  bool drained = drain();
  if (drained) farm.dispatcher.feed(farm::Tick{});
  plans.shared.turn(clock.now_ns());
  shards.turn(jobs, plans.shared);
  backups.turn(common::wall_clock_ns());
  plans.plans.tend_revocations(common::wall_clock_ns());
  jobs.turn(clock.now_ns());
  plans.watches.turn();
  message_router.turn(clock.now_ns());
}

// False when there is more to read.
bool Service::State::drain() {
  for (int round = 0; round < kRoundsAtOnce; ++round) {
    wire.arrivals.clear();
    size_t count = wire.router.receive(wire.arrivals, kArrivalsAtOnce);
    for (common::Arrival& arrival : wire.arrivals) message_router.receive(std::move(arrival));
    if (count < kArrivalsAtOnce) return true;
  }
  return false;
}

int Service::State::wait_ms() const {
  bool is_busy =
      outbox.has_backlog() || !jobs.idle() || plans.shared.waited_for() || plans.watches.is_busy();
  if (is_busy) return kBusyWaitMs;
  auto timer_ns = farm.dispatcher.scheduler().next_timer_ns();
  if (!timer_ns) return kIdleWaitMs;
  int64_t left_ms = (*timer_ns - clock.now_ns()) / 1'000'000 + 1;
  return static_cast<int>(std::clamp<int64_t>(left_ms, 0, kIdleWaitMs));
}

void Service::State::wind_up() {
  reach.calls.close();
  close_searchers();
  farm.dispatcher.close();
  shards.leave(jobs, plans.shared, disk.commits, outbox);
  jobs.interrupt(common::unavailable("the farm is shutting down; submit again later"));
  outbox.flush();
  disk.commits.flush();
  plans.shared.wind_up();
  Status status = disk.store->sync();
  if (!status.ok()) common::log_error(cat("cannot flush the store: ", status.error().message));
  common::log_info("coordinator stopped");
}

}  // namespace coordinator::service
