#include "tests/bench/farm/simulated_workers.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <queue>
#include <set>
#include <stdexcept>
#include <utility>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/wire/ir_codec.h"
#include "common/wire/socket.h"

namespace bench {

using common::cat;
using common::Digest;

namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kWelcomePatienceNs = 60'000 * kNsPerMs;
constexpr int kPollMs = 50;
constexpr size_t kPacketsAtOnce = 64;

common::DealerSocket connect(common::WireContext& context, const FarmUnderLoad& farm) {
  auto socket = common::DealerSocket::connect(context, {farm.endpoint(), farm.keys(), nullptr});
  if (!socket.ok()) throw std::runtime_error(socket.error().message);
  return std::move(socket).value();
}

}  // namespace

// A worker's connection to one coordinator.
class SimulatedWorkers::Link {
 public:
  // `device_free_ns`: when the worker's device will have done all that it was given.
  Link(SimulatedWorkers& all, SimulatedAnswers& answers, common::WireContext& context,
       const FarmUnderLoad& farm, size_t number, int64_t& device_free_ns)
      : all_(all),
        answers_(answers),
        socket_(connect(context, farm)),
        name_(cat("worker-", number)),
        device_free_ns_(device_free_ns) {
    say_hello();
  }

  common::DealerSocket& socket() { return socket_; }
  std::vector<double>& turnaround_ms() { return turnaround_ms_; }
  // When the device has its next result.
  std::optional<int64_t> due_ns() const {
    if (running_.empty()) return std::nullopt;
    return running_.front().due_ns;
  }

  void receive(int64_t now_ns) {
    packets_.clear();
    socket_.receive(packets_, kPacketsAtOnce);
    for (const auto& packet : packets_) {
      if (!packet.ok()) throw std::runtime_error(packet.error().message);
      on(*packet, now_ns);
    }
  }

  void tend(int64_t now_ns) {
    uint64_t connections = socket_.counters().ready;
    if (connections > connections_ && connections_ != 0) say_hello();
    connections_ = connections;
    if (is_welcome_ && now_ns >= next_heartbeat_ns_) {
      next_heartbeat_ns_ = now_ns + heartbeat_ms_ * kNsPerMs;
      socket_.send(common::Heartbeat{{held_.begin(), held_.end()}});
    }
    while (!running_.empty() && running_.front().due_ns <= now_ns) {
      Running done = running_.front();
      running_.pop_front();
      answer(done, now_ns);
    }
  }

 private:
  struct Running {
    common::TaskLease lease;
    const SimulatedAnswer* answer = nullptr;
    int64_t due_ns = 0;
  };

  void say_hello() {
    socket_.send(common::WorkerHello{name_, kLoadTarget, all_.options_.slots,
                                     common::kProtocolVersion, "bench"});
  }

  void on(const common::Packet& packet, int64_t now_ns) {
    if (auto* welcome = std::get_if<common::Welcome>(&packet.message)) {
      on_welcome(*welcome);
    } else if (auto* task = std::get_if<common::Task>(&packet.message)) {
      on_task(*task, now_ns);
    } else if (auto* blob = std::get_if<common::Blob>(&packet.message)) {
      graphs_.insert(blob->digest);
      for (const common::Task& waiting : std::exchange(waiting_, {})) begin(waiting, now_ns);
    } else if (auto* revoke = std::get_if<common::Revoke>(&packet.message)) {
      forget(revoke->lease);
    } else if (auto* request = std::get_if<common::BlobRequest>(&packet.message)) {
      const common::SharedBytes* object = answers_.object(request->digest);
      if (object != nullptr) {
        socket_.send(common::Blob{request->digest}, *object);
      } else {
        socket_.send(common::BlobMissing{request->digest});
      }
    } else if (auto* refused = std::get_if<common::Refused>(&packet.message)) {
      if (refused->code == common::Code::kUnavailable) say_hello();
    }
  }

  void on_welcome(const common::Welcome& welcome) {
    if (!coordinator_.empty() && welcome.coordinator_id != coordinator_) {
      // Leases of an earlier coordinator are void to this one.
      all_.held_ -= held_.size();
      held_.clear();
      running_.clear();
      waiting_.clear();
      answered_ns_.clear();
    }
    coordinator_ = welcome.coordinator_id;
    heartbeat_ms_ = welcome.heartbeat_ms;
    if (!std::exchange(is_welcome_, true)) ++all_.welcomed_;
    if (held_.size() < all_.options_.slots) {
      socket_.send(common::Credit{all_.options_.slots - static_cast<uint32_t>(held_.size())});
    }
  }

  void on_task(const common::Task& task, int64_t now_ns) {
    int64_t none = 0;
    all_.first_task_ns_.compare_exchange_strong(none, now_ns);
    ++all_.tasks_;
    if (held_.insert(task.lease).second) ++all_.held_;
    if (!answered_ns_.empty()) {
      turnaround_ms_.push_back(static_cast<double>(now_ns - answered_ns_.front()) * 1e-6);
      answered_ns_.pop_front();
    }
    begin(task, now_ns);
  }

  void begin(const common::Task& task, int64_t now_ns) {
    for (const Digest& graph : task.blobs) {
      if (graphs_.count(graph) != 0) continue;
      waiting_.push_back(task);
      if (waiting_.size() == 1) socket_.send(common::BlobRequest{graph});
      return;
    }
    const SimulatedAnswer& answer = answers_.to(task.payload);
    if (answer.kind == common::TaskKind::kBaseline) ++all_.searches_;
    if (answer.kind == common::TaskKind::kFinalist) {
      ++all_.finalists_;
      all_.finalist_ns_ = now_ns;
    }
    if (!all_.options_.answers) return;
    device_free_ns_ = std::max(device_free_ns_, now_ns) +
                      static_cast<int64_t>(all_.options_.task_ms * static_cast<double>(kNsPerMs));
    running_.push_back({task.lease, &answer, device_free_ns_});
  }

  void forget(const common::TaskLease& lease) {
    if (held_.erase(lease) != 0) --all_.held_;
    std::erase_if(running_, [&](const Running& one) { return one.lease == lease; });
    std::erase_if(waiting_, [&](const common::Task& one) { return one.lease == lease; });
  }

  void answer(const Running& done, int64_t now_ns) {
    if (all_.answers_.fetch_add(1) >= all_.options_.answers_max) {
      --all_.answers_;
      return;
    }
    if (held_.erase(done.lease) != 0) --all_.held_;
    common::TaskResult result;
    result.lease = done.lease;
    result.report = done.answer->report;
    socket_.send(result);
    socket_.send(common::Credit{1});
    answered_ns_.push_back(now_ns);
  }

  SimulatedWorkers& all_;
  SimulatedAnswers& answers_;
  common::DealerSocket socket_;
  const std::string name_;
  int64_t& device_free_ns_;
  std::string coordinator_;
  bool is_welcome_ = false;
  uint64_t connections_ = 0;
  int64_t heartbeat_ms_ = 1000;
  int64_t next_heartbeat_ns_ = 0;
  std::set<common::TaskLease> held_;
  std::set<Digest> graphs_;
  std::vector<common::Task> waiting_;  // for their graph
  std::deque<Running> running_;        // in the order in which they end
  std::deque<int64_t> answered_ns_;    // answers whose place is free
  std::vector<double> turnaround_ms_;
  std::vector<common::Result<common::Packet>> packets_;
};

// The workers of one thread.
class SimulatedWorkers::Crew {
 public:
  Crew(SimulatedWorkers& all, const std::vector<const FarmUnderLoad*>& farms, size_t first,
       size_t count)
      : all_(all), answers_(all.options_.answers_from), device_free_ns_(count) {
    for (size_t i = 0; i < count; ++i) {
      for (const FarmUnderLoad* farm : farms) {
        links_.push_back(
            std::make_unique<Link>(all, answers_, context_, *farm, first + i, device_free_ns_[i]));
        poller_.watch(links_.back()->socket());
      }
    }
    poller_.watch_fd(timer_);
  }
  ~Crew() { ::close(timer_); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run() {
    common::SteadyClock clock;
    while (!all_.stopping_) {
      int64_t now_ns = clock.now_ns();
      for (size_t i = 0; i < links_.size(); ++i) {
        if (poller_.ready(i)) links_[i]->receive(now_ns);
        links_[i]->tend(now_ns);
      }
      arm_timer();
      if (!poller_.wait(kPollMs).ok()) throw std::runtime_error("cannot wait");
    }
  }

  void collect(std::vector<double>& turnaround_ms) const {
    for (const auto& link : links_) {
      auto& samples = link->turnaround_ms();
      turnaround_ms.insert(turnaround_ms.end(), samples.begin(), samples.end());
    }
  }

 private:
  // Results are due at times between the milliseconds that a poller knows.
  void arm_timer() {
    int64_t first_ns = INT64_MAX;
    for (const auto& link : links_) {
      if (auto due = link->due_ns()) first_ns = std::min(first_ns, *due);
    }
    itimerspec when{};
    if (first_ns != INT64_MAX) {
      when.it_value.tv_sec = first_ns / kNsPerSecond;
      when.it_value.tv_nsec = first_ns % kNsPerSecond;
    }
    ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

  SimulatedWorkers& all_;
  common::WireContext context_;
  SimulatedAnswers answers_;
  std::vector<int64_t> device_free_ns_;  // by worker
  std::vector<std::unique_ptr<Link>> links_;
  common::Poller poller_;
  // The clock that SteadyClock reads. Setting it anew makes it unreadable.
  const int timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
};

SimulatedWorkers::SimulatedWorkers(const std::vector<const FarmUnderLoad*>& farms,
                                   const WorkersOptions& options)
    : options_(options), links_(options.workers * farms.size()) {
  size_t threads = std::clamp<size_t>(options.threads, 1, std::max<size_t>(options.workers, 1));
  size_t first = 0;  // of this process
  for (size_t t = 0; t < threads; ++t) {
    size_t count = (options.workers - first) / (threads - t);
    crews_.push_back(std::make_unique<Crew>(*this, farms, options.first + first, count));
    first += count;
  }
  for (auto& crew : crews_) threads_.emplace_back([&crew] { crew->run(); });
}

SimulatedWorkers::~SimulatedWorkers() { finish(); }

bool SimulatedWorkers::wait_until_welcome() const {
  common::SteadyClock clock;
  int64_t end_ns = clock.now_ns() + kWelcomePatienceNs;
  while (welcomed_ < links_) {
    if (clock.now_ns() > end_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void SimulatedWorkers::count_from_now() {
  tasks_ = answers_ = searches_ = 0;
  finalists_ = 0;
  first_task_ns_ = finalist_ns_ = 0;
}

WorkersReport SimulatedWorkers::finish() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  WorkersReport report{tasks_, answers_, searches_, first_task_ns_, finalists_, finalist_ns_, {}};
  for (const auto& crew : crews_) crew->collect(report.turnaround_ms);
  return report;
}

}  // namespace bench
