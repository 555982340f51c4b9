#include "tests/chaos/farm.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "common/base/cat.h"

namespace chaos {
namespace {

using common::cat;
using common::Result;
using common::Status;

constexpr int kNearWorkers = 2;
constexpr int kNearClients = 3;
// How many clients want each model: most of them join the first one's job.
constexpr size_t kSubmitsPerCase = 2;
constexpr const char* kBudget = "4";
// At a time, of each coordinator and searcher, where many workers want tasks.
constexpr const char* kSearches = "8";
// A node that was lost comes back later than its lease lasts, 15 s.
constexpr int64_t kNodeRestartNs = 20'000'000'000;
// With shards also sooner than others take them over.
constexpr int64_t kShardsRestartNs = 3'000'000'000;
constexpr int kCommandMs = 30'000;
constexpr int kStartMs = 30'000;
constexpr int kFinishMs = 20'000;
constexpr int kCheckMs = 600'000;
// A store that could not write may end its process somewhat later than the disk has room again.
constexpr int64_t kDiskGraceNs = 5'000'000'000;
constexpr int kLeftoverMs = 5'000;
constexpr size_t kLogEnd = 3'000;

int free_port() {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
               ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

std::string case_name(const std::string& folder) { return folder.substr(folder.rfind('/') + 1); }

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

Farm::Farm(FarmOptions options, common::ScratchDirectory scratch)
    : options_(std::move(options)), scratch_(std::move(scratch)), start_ns_(clock_.now_ns()) {}

Result<std::unique_ptr<Farm>> Farm::start(FarmOptions options) {
  LFARM_ASSIGN_OR_RETURN(auto scratch, common::ScratchDirectory::create("lfarm-chaos"));
  std::unique_ptr<Farm> farm(new Farm(std::move(options), std::move(scratch)));
  LFARM_RETURN_IF_ERROR(farm->prepare_places());
  LFARM_RETURN_IF_ERROR(farm->prepare_keys());
  LFARM_RETURN_IF_ERROR(farm->start_coordinators());
  LFARM_RETURN_IF_ERROR(farm->start_searchers());
  LFARM_RETURN_IF_ERROR(farm->start_workers());
  farm->make_clients();
  LFARM_RETURN_IF_ERROR(farm->start_simulated());
  return farm;
}

Status Farm::prepare_places() {
  for (int k = 0; k < options_.coordinators; ++k) {
    LFARM_RETURN_IF_ERROR(common::make_directories(state(k)));
  }
  if (options_.coordinators > 1) {
    LFARM_RETURN_IF_ERROR(common::make_directories(path("cluster")));
    LFARM_ASSIGN_OR_RETURN(replicas_, Replicas::start(path("cluster"), options_.has_shards));
    return {};
  }
  obstacle_ = options_.obstacle;
  if (!obstacle_.empty()) return {};
  auto disk = SmallDisk::mount(path("farm"));
  auto network = FarNetwork::make();
  for (const auto* error :
       {disk.ok() ? nullptr : &disk.error(), network.ok() ? nullptr : &network.error()}) {
    if (error != nullptr) obstacle_ += cat(obstacle_.empty() ? "" : "; ", error->message);
  }
  if (disk.ok()) disk_ = std::move(disk).value();
  if (network.ok()) network_ = std::move(network).value();
  return {};
}

Result<std::string> Farm::lfarm(std::vector<std::string> arguments, int timeout_ms) const {
  arguments.insert(arguments.begin(), options_.binaries + "/lfarm");
  LFARM_ASSIGN_OR_RETURN(auto output, common::run_command(arguments, timeout_ms));
  if (!output.timed_out && output.status.code == 0 && output.status.signal == 0) {
    return output.output;
  }
  return common::internal_error(cat("lfarm ", arguments[1], " ", describe(output.status),
                                    output.timed_out ? " (too late)" : "", ": ", output.output));
}

Status Farm::prepare_keys() {
  const std::pair<const char*, const char*> keys[] = {{"worker.key", "worker"},
                                                      {"client.key", "submit,read"}};
  for (const auto& [file, roles] : keys) {
    auto made = lfarm({"keys", "new", path(file)}, kCommandMs);
    if (!made.ok()) return made.error();
    auto granted =
        lfarm({"keys", "grant", path(file), "team", roles, "--state", path("farm")}, kCommandMs);
    if (!granted.ok()) return granted.error();
  }
  if (options_.coordinators == 1) return {};
  auto made = lfarm({"keys", "init", "--state", path("farm")}, kCommandMs);
  if (!made.ok()) return made.error();
  for (int k = 1; k < options_.coordinators; ++k) {
    for (const char* file : {"farm.key", "signing.key", "allow"}) {
      std::filesystem::copy_file(state(0) + "/" + file, state(k) + "/" + file);
    }
  }
  return {};
}

std::string Farm::state(int coordinator) const {
  return coordinator == 0 ? path("farm") : path(cat("farm-", coordinator));
}

std::string Farm::endpoint(bool far) const {
  std::string all;
  for (int port : ports_) {
    all += cat(all.empty() ? "" : ",", "tcp://", far ? FarNetwork::near_address() : "127.0.0.1",
               ":", port);
  }
  return all;
}

// Of several without shards, each listens once it leads, all at one address, as behind a cluster's
// service.
Status Farm::start_coordinators() {
  for (int k = 0; k < (options_.has_shards ? options_.coordinators : 1); ++k) {
    ports_.push_back(free_port());
  }
  std::vector<std::string> http_files;
  for (int k = 0; k < options_.coordinators; ++k) {
    std::vector<std::string> arguments = arguments_of(k);
    std::string name = "coordinator";
    int64_t restart_ns = Supervised::kRestartNs;
    if (replicas_) {
      http_files.push_back(path(cat("http-", k)));
      arguments.insert(arguments.end(),
                       {"--http", "127.0.0.1:0", "--http-file", http_files.back()});
      name += cat("-", k);
      restart_ns = options_.has_shards ? kShardsRestartNs : kNodeRestartNs;
    }
    coordinators_.push_back(std::make_unique<Supervised>(name, std::move(arguments),
                                                         path(name + ".log"), nullptr, restart_ns));
    LFARM_RETURN_IF_ERROR(coordinators_.back()->start());
  }
  if (replicas_) idle_watch_ = std::make_unique<IdleWatch>(http_files);
  return await_endpoint();
}

std::vector<std::string> Farm::arguments_of(int coordinator) const {
  int port = options_.has_shards ? ports_[static_cast<size_t>(coordinator)] : ports_.front();
  std::vector<std::string> arguments = {
      options_.binaries + "/lfarm-coordinator",
      "--secure",
      "--listen",
      cat("tcp://", network_ ? "0.0.0.0" : "127.0.0.1", ":", port),
      "--state",
      state(coordinator),
      "--endpoint-file",
      path("endpoint")};
  if (coordinator < options_.searchers) {
    arguments.insert(arguments.end(), {"--searchers", searchers_endpoint(coordinator)});
  }
  if (options_.simulated > 0) {
    arguments.insert(arguments.end(), {"--searches", kSearches, "--tenant-searches", kSearches});
  }
  if (!replicas_) return arguments;
  for (const std::string& word : replicas_->arguments(coordinator)) arguments.push_back(word);
  return arguments;
}

std::string Farm::searchers_endpoint(int coordinator) const {
  return cat("ipc://", path(cat("searchers-", coordinator)));
}

Status Farm::await_endpoint() {
  for (int waited = 0; ::access(path("endpoint").c_str(), F_OK) != 0; waited += 10) {
    if (waited > kStartMs) return common::internal_error("the coordinator does not start");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  constexpr std::string_view kSays = "public key ";
  while (farm_key_.empty()) {  // what it prints after it has written the endpoint
    for (const auto& coordinator : coordinators_) {
      LFARM_ASSIGN_OR_RETURN(std::string log,
                             common::read_file(path(coordinator->name() + ".log")));
      size_t at = log.find(kSays);
      if (at == std::string::npos || log.find('\n', at) == std::string::npos) continue;
      farm_key_ = log.substr(at + kSays.size(), log.find('\n', at) - at - kSays.size());
    }
  }
  return {};
}

Status Farm::start_searchers() {
  for (int k = 0; k < options_.searchers; ++k) {
    std::string name = cat("searcher-", k);
    std::vector<std::string> arguments = {options_.binaries + "/lfarm-coordinator",
                                          "--role",
                                          "search",
                                          "--coordinator",
                                          searchers_endpoint(k % options_.coordinators),
                                          "--searches",
                                          kSearches,
                                          "--key",
                                          path("worker.key"),
                                          "--farm-key",
                                          farm_key_};
    searchers_.push_back(
        std::make_unique<Supervised>(name, std::move(arguments), path(name + ".log"), nullptr));
    LFARM_RETURN_IF_ERROR(searchers_.back()->start());
  }
  return {};
}

Status Farm::start_simulated() {
  if (options_.simulated == 0) return {};
  SimulatedOptions simulated;
  simulated.program = options_.simulated_workers;
  simulated.access = {"--farm",           endpoint(false), "--key",
                      path("worker.key"), "--farm-key",    farm_key_};
  simulated.workers = options_.simulated;
  simulated.client = access(endpoint(false));
  simulated.client.insert(simulated.client.begin(), options_.binaries + "/lfarm");
  simulated.folder = path("simulated");
  simulated.cases = options_.cases;
  LFARM_RETURN_IF_ERROR(common::make_directories(simulated.folder));
  LFARM_ASSIGN_OR_RETURN(simulated_, SimulatedLoad::start(std::move(simulated)));
  return {};
}

Status Farm::start_workers() {
  for (int k = 0; k < kNearWorkers + (network_ ? 1 : 0); ++k) {
    bool far = k >= kNearWorkers;
    std::string name = far ? "far-worker" : cat("worker-", k + 1);
    std::vector<std::string> arguments = {options_.binaries + "/lfarm-worker",
                                          "--farm",
                                          endpoint(far),
                                          "--device",
                                          "cpu",
                                          "--threads",
                                          "1",
                                          "--state",
                                          path(name),
                                          "--key",
                                          path("worker.key"),
                                          "--farm-key",
                                          farm_key_};
    workers_.push_back(std::make_unique<Supervised>(name, std::move(arguments), path(name + ".log"),
                                                    far ? network_.get() : nullptr));
    LFARM_RETURN_IF_ERROR(workers_.back()->start());
  }
  return {};
}

std::vector<std::string> Farm::access(const std::string& endpoint) const {
  return {"--farm", endpoint, "--farm-key", farm_key_, "--keys", path("client.key")};
}

std::vector<std::string> Farm::connection(const std::string& endpoint) const {
  std::vector<std::string> arguments = access(endpoint);
  arguments.insert(arguments.end(), {"--device", "cpu", "--budget", kBudget});
  return arguments;
}

void Farm::make_clients() {
  for (int k = 0; k < kNearClients + (network_ ? 1 : 0); ++k) {
    bool far = k >= kNearClients;
    std::string name = far ? "far-client" : cat("client-", k + 1);
    std::vector<std::string> arguments = connection(endpoint(far));
    arguments.insert(arguments.begin(), options_.binaries + "/lfarm");
    (void)common::make_directories(path(name));
    clients_.push_back(std::make_unique<Client>(name, std::move(arguments), path(name),
                                                far ? network_.get() : nullptr));
  }
}

std::string Farm::next_case() {
  size_t which = next_ / kSubmitsPerCase;
  if (which >= options_.cases.size()) return "";
  ++next_;
  return options_.cases[which];
}

void Farm::tend(bool go_on) {
  int64_t now = clock_.now_ns();
  bool disk_is_fine = !disk_full_ && now > disk_freed_ns_ + kDiskGraceNs;
  for (auto& worker : workers_) complain(worker->tend(now, true));
  for (auto& coordinator : coordinators_) {
    // One that has lost its lease ends, as it should.
    complain(coordinator->tend(now, disk_is_fine && !replicas_));
  }
  for (auto& searcher : searchers_) complain(searcher->tend(now, true));
  if (idle_watch_) complain(idle_watch_->tend(now));
  if (simulated_) {
    for (const std::string& what : simulated_->tend(now, go_on)) complain(what);
  }
  for (auto& client : clients_) {
    if (client->current().empty() && go_on) client->submit(next_case());
    std::string submitted = client->current();
    auto plan = client->tend(now);
    std::string complaint = client->take_complaint();
    if (!complaint.empty()) complain(cat(client->name(), ": ", complaint));
    if (!plan) continue;
    ++submits_done_;
    plans_[submitted].insert(plan->id);
    graphs_[submitted] = plan->graph;
    say(cat("  ", client->name(), " has ", case_name(submitted), ", plan ", plan->id.substr(0, 8)));
  }
}

bool Farm::is_quiet() const {
  bool is_waiting = simulated_ && !simulated_->is_quiet();
  return !is_waiting && std::all_of(clients_.begin(), clients_.end(),
                                    [](const auto& client) { return client->current().empty(); });
}

int Farm::attempts() const {
  int sum = 0;
  for (const auto& client : clients_) sum += client->attempts();
  return sum;
}

void Farm::set_disk_full(bool full) {
  if (full) {
    Status filled = disk_->fill();
    if (!filled.ok()) complain(filled.error().message);
  } else {
    disk_->clear();
    disk_freed_ns_ = clock_.now_ns();
  }
  disk_full_ = full;
}

void Farm::check_outputs() {
  std::vector<std::string> arguments = {"check"};
  for (const auto& [folder, ids] : plans_) arguments.push_back(folder);
  for (const std::string& word : connection(endpoint(false))) arguments.push_back(word);
  arguments.insert(arguments.end(), {"--state", path("checker")});
  auto checked = lfarm(std::move(arguments), kCheckMs);
  if (!checked.ok()) return complain(checked.error().message);
  say(cat("outputs: ",
          checked->substr(checked->rfind('\n', checked->size() - 2) + 1, std::string::npos)));
}

void Farm::check_plans(const std::string& listing) {
  check_same_plans();
  for (const auto& [folder, ids] : plans_) {
    size_t kept = count(listing, cat("\"graph_hash\":\"", graphs_[folder], "\""));
    if (kept != 1) complain(cat(case_name(folder), ": the store holds ", kept, " plans"));
    if (count(listing, cat("\"plan\":\"", *ids.begin(), "\"")) == 0) {
      complain(cat(case_name(folder), ": the plan that clients have is not in the store"));
    }
  }
}

// Whichever coordinator answered.
void Farm::check_same_plans() {
  for (const auto& [folder, ids] : plans_) {
    if (ids.size() == 1) continue;
    complain(cat(case_name(folder), ": clients were given ", ids.size(), " different plans"));
  }
}

void Farm::examine() {
  if (!plans_.empty()) check_outputs();
  std::vector<std::string> ask = {"jobs", "--json"};
  std::vector<std::string> where = access(endpoint(false));
  ask.insert(ask.end(), where.begin(), where.end());
  ask.insert(ask.end(), {"--state", path("checker")});
  auto jobs = lfarm(std::move(ask), kCommandMs);
  if (!jobs.ok()) complain(jobs.error().message);
  if (jobs.ok() && jobs->find("\"jobs\":[]") == std::string::npos) {
    complain("jobs are left that nobody waits for: " + *jobs);
  }
  if (simulated_) {
    say(cat(simulated_->submits_done(), " submits of ", simulated_->cases_done(),
            " models for simulated workers"));
    for (const std::string& what : simulated_->complaints()) complain(what);
    complain(simulated_->finish(kFinishMs));
  }
  for (auto& worker : workers_) complain(worker->finish(kFinishMs));
  for (auto& searcher : searchers_) complain(searcher->finish(kFinishMs));
  for (auto& coordinator : coordinators_) complain(coordinator->finish(kFinishMs));
  check_leftovers();
  if (idle_watch_) {
    say(cat("coordinators that answer changed ", idle_watch_->changes(), " times; at most ",
            idle_watch_->workers_max(), " workers, ", idle_watch_->waiting_max(),
            " tasks that waited, ", idle_watch_->longest_ns() / 1'000'000,
            " ms without work for a worker while tasks waited"));
  }
  if (options_.has_shards) return check_same_plans();
  // A store that was away at a handover may have had a model searched for twice.
  if (replicas_) return;
  auto listing = lfarm({"cache", "ls", "--json", "--state", path("farm")}, kCommandMs);
  if (!listing.ok()) return complain(listing.error().message);
  check_plans(*listing);
}

// With its processes, all that they started must have ended: executors, compilers, clients'
// children.
void Farm::check_leftovers() {
  std::string left;
  for (int waited = 0; waited < kLeftoverMs; waited += 10) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // the orphans that ended
    }
    left.clear();
    for (pid_t pid : children_of(::getpid())) {
      auto name = common::read_file(cat("/proc/", pid, "/comm"));
      bool is_place =
          (network_ && pid == network_->holder()) || (replicas_ && pid == replicas_->store_pid());
      if (name.ok() && !is_place) left += cat(" ", pid, " ", name->substr(0, name->find('\n')));
    }
    if (left.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  complain("processes outlive their farm:" + left);
}

void Farm::complain(const std::string& what) {
  if (what.empty()) return;
  violations_.push_back(what);
  say("VIOLATION: " + what);
}

void Farm::say(const std::string& what) const {
  double seconds = static_cast<double>(clock_.now_ns() - start_ns_) * 1e-9;
  bool ends = !what.empty() && what.back() == '\n';
  std::printf("%7.2f s  %s%s", seconds, what.c_str(), ends ? "" : "\n");
  std::fflush(stdout);
}

void Farm::print_logs() const {
  std::vector<std::string> names;
  for (const auto& coordinator : coordinators_) names.push_back(coordinator->name());
  for (const auto& worker : workers_) names.push_back(worker->name());
  for (const auto& searcher : searchers_) names.push_back(searcher->name());
  if (simulated_) names.emplace_back("simulated/simulated");
  for (const std::string& name : names) {
    auto log = common::read_file(path(name + ".log"));
    if (!log.ok()) continue;
    size_t from = log->size() > kLogEnd ? log->find('\n', log->size() - kLogEnd) + 1 : 0;
    std::printf("---- %s\n%s", name.c_str(), log->c_str() + from);
  }
}

}  // namespace chaos
