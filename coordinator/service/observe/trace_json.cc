#include "coordinator/service/observe/trace_json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/cat.h"

namespace coordinator::service {
namespace {

using common::cat;
using Json = nlohmann::ordered_json;

constexpr int kCoordinator = 1;
constexpr int kFirstWorker = 2;
// Threads of the coordinator's process.
constexpr int kJobThread = 1;
constexpr int kSearchThread = 2;
constexpr int kFirstCandidateThread = 10;

// The earliest thread, from `first` on, that has ended what it did.
class Lanes {
 public:
  explicit Lanes(int first) : first_(first) {}
  // Intervals are to come in the order of their beginnings.
  int take(int64_t from_ns, int64_t to_ns) {
    size_t lane = 0;
    while (lane < ends_.size() && ends_[lane] > from_ns) ++lane;
    if (lane == ends_.size()) ends_.push_back(0);
    ends_[lane] = std::max(from_ns, to_ns);
    return first_ + static_cast<int>(lane);
  }
  int count() const { return static_cast<int>(ends_.size()); }
  int first() const { return first_; }

 private:
  int first_;
  std::vector<int64_t> ends_;
};

using Origins = std::map<std::string, common::KernelOrigin>;

class Writer {
 public:
  Writer(const StoredTimeline& timeline, const Origins& origins)
      : timeline_(timeline), origins_(origins) {}
  std::string write();

 private:
  struct Place {
    int process, thread;
  };
  void find_bounds();
  double us(int64_t ns) const { return static_cast<double>(ns - begin_ns_) / 1000; }
  void name(const char* what, Place place, const std::string& text);
  void span(Place place, const char* category, const std::string& text, int64_t from_ns,
            int64_t to_ns, Json args = Json::object());
  void counter(int64_t at_ns, const char* text, const char* unit, uint64_t value);
  void write_job();
  void write_rounds();
  void write_tasks();
  Json task_args(const TimelineTask& task) const;
  void write_candidate(const TimelineTask& task, int thread);
  void write_leases(const std::vector<const TimelineTask*>& tasks);
  void write_lease(const TimelineTask& task, const TimelineLease& lease, Place place);
  void write_worker_spans(const TimelineTask& task, const TimelineLease& lease, Place place);

  const StoredTimeline& timeline_;
  const Origins& origins_;
  int64_t begin_ns_ = 0, end_ns_ = 0;
  Json events_ = Json::array();
};

void Writer::find_bounds() {
  begin_ns_ = std::numeric_limits<int64_t>::max();
  end_ns_ = std::numeric_limits<int64_t>::min();
  auto see = [this](int64_t from_ns, int64_t to_ns) {
    begin_ns_ = std::min(begin_ns_, from_ns);
    end_ns_ = std::max({end_ns_, from_ns, to_ns});
  };
  for (const TimelineRow& row : timeline_.rows) {
    if (auto* task = std::get_if<TimelineTask>(&row)) see(task->queued_ns, task->kept_ns);
    if (auto* stage = std::get_if<TimelineStage>(&row)) see(stage->from_ns, stage->to_ns);
    if (auto* round = std::get_if<TimelineRound>(&row)) see(round->from_ns, round->to_ns);
    if (auto* mark = std::get_if<TimelineMark>(&row)) see(mark->at_ns, mark->at_ns);
  }
  if (timeline_.rows.empty()) begin_ns_ = end_ns_ = 0;
}

void Writer::name(const char* what, Place place, const std::string& text) {
  events_.push_back({{"name", what},
                     {"ph", "M"},
                     {"pid", place.process},
                     {"tid", place.thread},
                     {"args", {{"name", text}}}});
}

// What seems to end before it begins takes no time: clocks are set now and then.
void Writer::span(Place place, const char* category, const std::string& text, int64_t from_ns,
                  int64_t to_ns, Json args) {
  events_.push_back({{"name", text},
                     {"cat", category},
                     {"ph", "X"},
                     {"ts", us(from_ns)},
                     {"dur", static_cast<double>(std::max<int64_t>(0, to_ns - from_ns)) / 1000},
                     {"pid", place.process},
                     {"tid", place.thread},
                     {"args", std::move(args)}});
}

void Writer::counter(int64_t at_ns, const char* text, const char* unit, uint64_t value) {
  events_.push_back({{"name", text},
                     {"ph", "C"},
                     {"ts", us(at_ns)},
                     {"pid", kCoordinator},
                     {"tid", kSearchThread},
                     {"args", {{unit, value}}}});
}

void Writer::write_job() {
  name("process_name", {kCoordinator, 0}, "coordinator");
  name("thread_name", {kCoordinator, kJobThread}, "job");
  span({kCoordinator, kJobThread}, "job", cat("job ", timeline_.head.job), begin_ns_, end_ns_,
       {{"job", timeline_.head.job}, {"tenant", timeline_.head.tenant}});
  for (const TimelineRow& row : timeline_.rows) {
    if (auto* stage = std::get_if<TimelineStage>(&row)) {
      span({kCoordinator, kJobThread}, stage->is_part ? "preparation" : "stage", stage->stage,
           stage->from_ns, stage->to_ns);
    }
    if (auto* mark = std::get_if<TimelineMark>(&row)) {
      events_.push_back({{"name", mark->text},
                         {"cat", "job"},
                         {"ph", "i"},
                         {"s", "p"},
                         {"ts", us(mark->at_ns)},
                         {"pid", kCoordinator},
                         {"tid", kJobThread},
                         {"args", Json::object()}});
    }
  }
}

void Writer::write_rounds() {
  name("thread_name", {kCoordinator, kSearchThread}, "search");
  uint64_t best_ns = 0, expected_ns = 0;
  for (const TimelineRow& row : timeline_.rows) {
    auto* round = std::get_if<TimelineRound>(&row);
    if (round == nullptr) continue;
    span({kCoordinator, kSearchThread}, "search", "round", round->from_ns, round->to_ns,
         {{"learned", round->learned},
          {"proposed", round->proposed},
          {"completed", round->completed}});
    counter(round->to_ns, "candidates in flight", "candidates", round->in_flight);
    if (round->best_ns != 0 && round->best_ns != best_ns) {
      best_ns = round->best_ns;
      counter(round->to_ns, "best so far", "ns", best_ns);
    }
    if (round->expected_ns != 0 && round->expected_ns != expected_ns) {
      expected_ns = round->expected_ns;
      counter(round->to_ns, "expected", "ns", expected_ns);
    }
  }
}

// {"mr": 6, "nr": 16} of "mr=6,nr=16"; what is damaged is left out.
Json schedule_json(std::string_view text) {
  Json schedule = Json::object();
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    int64_t value = 0;
    const char* end = part.data() + part.size();
    auto read = std::from_chars(part.data() + equals + 1, end, value);
    if (read.ec == std::errc() && read.ptr == end)
      schedule[std::string(part.substr(0, equals))] = value;
  }
  return schedule;
}

Json Writer::task_args(const TimelineTask& task) const {
  Json args{{"job", timeline_.head.job},
            {"task", task.task},
            {"candidate", task.candidate},
            {"kind", common::task_kind_name(task.kind)},
            {"region", task.region},
            {"origin", task.origin},
            {"fingerprint", task.fingerprint.hex()},
            {"outcome", common::outcome_name(task.outcome)},
            {"measured_ns", task.measured_ns}};
  if (task.slowest.kernel.empty()) return args;
  args["kernel"] = task.slowest.kernel;
  args["kernel_ns"] = task.slowest.ns;
  args["schedule"] = schedule_json(task.slowest.schedule);
  if (auto origin = origins_.find(task.slowest.kernel); origin != origins_.end()) {
    if (!origin->second.modules.empty()) args["modules"] = origin->second.modules;
    if (!origin->second.sources.empty()) args["sources"] = origin->second.sources;
  }
  return args;
}

std::string title(const TimelineTask& task) {
  return cat(common::task_kind_name(task.kind), " ", task.candidate);
}

void Writer::write_candidate(const TimelineTask& task, int thread) {
  Place place{kCoordinator, thread};
  int64_t kept_ns = std::max(task.kept_ns, task.ended_ns);
  bool is_comparison = task.kind == common::TaskKind::kComparison;
  span(place, is_comparison ? "comparison" : "candidate", title(task), task.queued_ns, kept_ns,
       task_args(task));
  int64_t since_ns = task.queued_ns;
  for (const TimelineLease& lease : task.leases) {
    span(place, "queue", "queue", since_ns, lease.sent_ns);
    span(place, "lease", "lease", lease.sent_ns, lease.ended_ns,
         {{"worker", lease.worker}, {"end", lease.end}});
    since_ns = lease.ended_ns;
  }
  if (since_ns < task.ended_ns) span(place, "queue", "queue", since_ns, task.ended_ns);
  span(place, "commit", "commit", task.ended_ns, kept_ns);
}

// Clipped to the lease and to what is around them: nobody vouches for a worker's clock.
void Writer::write_worker_spans(const TimelineTask& task, const TimelineLease& lease, Place place) {
  std::vector<common::TaskSpan> spans = task.spans;
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
    return a.start_ms != b.start_ms ? a.start_ms < b.start_ms : a.ms > b.ms;
  });
  double told_ms = 0;
  for (const common::TaskSpan& span : spans) told_ms = std::max(told_ms, span.start_ms + span.ms);
  auto told_ns = static_cast<int64_t>(told_ms * 1e6);
  int64_t way_ns = std::max<int64_t>(0, lease.ended_ns - lease.sent_ns - told_ns) / 2;
  std::vector<int64_t> around{lease.ended_ns};
  for (const common::TaskSpan& one : spans) {
    int64_t from_ns = lease.sent_ns + way_ns + static_cast<int64_t>(one.start_ms * 1e6);
    int64_t to_ns = from_ns + static_cast<int64_t>(one.ms * 1e6);
    while (around.size() > 1 && around.back() <= from_ns) around.pop_back();
    if (from_ns >= around.back()) continue;
    to_ns = std::min(to_ns, around.back());
    span(place, "worker", one.step, from_ns, to_ns, {{"task", task.task}});
    around.push_back(to_ns);
  }
}

void Writer::write_lease(const TimelineTask& task, const TimelineLease& lease, Place place) {
  Json args = task_args(task);
  args["end"] = lease.end;
  bool is_last = &lease == &task.leases.back();
  span(place, "lease", title(task), lease.sent_ns, lease.ended_ns, std::move(args));
  if (is_last) write_worker_spans(task, lease, place);
}

void Writer::write_leases(const std::vector<const TimelineTask*>& tasks) {
  struct Held {
    const TimelineTask* task;
    const TimelineLease* lease;
  };
  std::map<std::string, std::vector<Held>> workers;
  for (const TimelineTask* task : tasks) {
    for (const TimelineLease& lease : task->leases) workers[lease.worker].push_back({task, &lease});
  }
  int process = kFirstWorker;
  for (auto& [worker, held] : workers) {
    std::stable_sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
      return a.lease->sent_ns < b.lease->sent_ns;
    });
    name("process_name", {process, 0}, cat("worker ", worker));
    Lanes lanes(1);
    for (const Held& one : held) {
      write_lease(*one.task, *one.lease,
                  {process, lanes.take(one.lease->sent_ns, one.lease->ended_ns)});
    }
    for (int lane = 0; lane < lanes.count(); ++lane) {
      name("thread_name", {process, lanes.first() + lane}, cat("slot ", lane + 1));
    }
    ++process;
  }
}

void Writer::write_tasks() {
  std::vector<const TimelineTask*> tasks;
  for (const TimelineRow& row : timeline_.rows) {
    if (auto* task = std::get_if<TimelineTask>(&row)) tasks.push_back(task);
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto* a, const auto* b) { return a->queued_ns < b->queued_ns; });
  Lanes lanes(kFirstCandidateThread);
  for (const TimelineTask* task : tasks) {
    write_candidate(*task, lanes.take(task->queued_ns, std::max(task->kept_ns, task->ended_ns)));
  }
  for (int lane = 0; lane < lanes.count(); ++lane) {
    name("thread_name", {kCoordinator, lanes.first() + lane}, cat("candidates ", lane + 1));
  }
  write_leases(tasks);
}

std::string Writer::write() {
  find_bounds();
  write_job();
  write_rounds();
  write_tasks();
  const TimelineHead& head = timeline_.head;
  Json json{{"displayTimeUnit", "ms"},
            {"otherData",
             {{"job", head.job},
              {"tenant", head.tenant},
              {"graph", head.graph},
              {"target", head.target},
              {"policy", head.policy},
              {"began_ns", begin_ns_},
              {"rows", timeline_.rows.size()},
              {"rows_dropped", timeline_.dropped},
              {"rows_damaged", timeline_.damaged}}},
            {"traceEvents", std::move(events_)}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

std::string trace_json(const StoredTimeline& timeline, const Origins& origins) {
  return Writer(timeline, origins).write();
}

}  // namespace coordinator::service
