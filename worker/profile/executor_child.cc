#include "worker/profile/executor_child.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <list>
#include <map>
#include <thread>

#include "common/base/cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/process/pipe.h"
#include "common/process/processors.h"
#include "common/process/sanitized.h"
#include "common/runtime/executor/executor.h"
#include "common/runtime/whole_run.h"
#include "common/sandbox/sandbox.h"
#include "common/wire/ir_codec.h"
#include "worker/profile/device_lock.h"
#include "worker/profile/measure.h"
#include "worker/profile/pace.h"
#include "worker/profile/request.h"
#include "worker/profile/verifier.h"

namespace worker {
using common::cat;
using common::Code;
using common::Digest;
using common::Error;
using common::Graph;
using common::Result;
using common::Status;
using common::TaskOutcome;

namespace {

constexpr size_t kGraphsMax = 8;
// A machine that does the reference work so much slower than before is disturbed; it is measured
// again after a pause, for so long at most, since it may stay like that.
constexpr double kSlowPace = 1.15;
constexpr int64_t kPacePatienceNs = 200'000'000;
constexpr std::chrono::milliseconds kPacePause{20};
// Devices of different thread counts that are kept.
constexpr size_t kDevicesMax = 4;
// Seconds beyond what a candidate may take on all its threads.
constexpr int64_t kProcessorTimeSlack = 10;
// More than any candidate needs that leaves the machine usable.
constexpr rlim_t kAddressSpacePerMemory = 4;

void limit_to(__rlimit_resource resource, rlim_t value) {
  rlimit limit{value, value};
  ::setrlimit(resource, &limit);
}

// What the process can write to is bounded, which addresses that are only reserved are not.
void limit_process(const ExecutorDevice& device) {
  ::prctl(PR_SET_DUMPABLE, 0);
  limit_to(RLIMIT_CORE, 0);
  // The shadow memory of a sanitizer takes terabytes of addresses.
  if (!common::kSanitized) {
    auto memory = static_cast<rlim_t>(device.memory_bytes_max);
    if (memory == 0) memory = static_cast<rlim_t>(common::usable_memory_bytes());
    // Of a driver's mappings many are the device's memory.
    limit_to(RLIMIT_DATA, device.has_driver ? memory * kAddressSpacePerMemory : memory);
    if (!device.has_driver) limit_to(RLIMIT_AS, memory * kAddressSpacePerMemory);
  }
  if (device.has_driver) return;
  // Where the kernel has no filters the sandbox says so already.
  (void)common::become_lone_process();
}

// What a model's regions are judged by stays, where there is memory for it; the whole of a large
// model is made again, in seconds, when its turn comes.
size_t kept_bytes_max(const ExecutorDevice& device) {
  constexpr uint64_t kLeast = uint64_t{256} << 20, kMost = uint64_t{512} << 20;
  uint64_t memory = device.memory_bytes_max;
  if (memory == 0) memory = common::usable_memory_bytes();
  return std::clamp(memory / 8, kLeast, kMost);
}

// Tensors of a megabyte and more go back to the system as soon as they are free; glibc otherwise
// keeps ever larger ones, once some were freed, between others that stay.
void return_large_blocks() {
  constexpr int kLargeBytes = 1 << 20, kKeptAtEndBytes = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptAtEndBytes);
}

// Seconds of processor time that this process may still use; 0: any.
void limit_processor_time(int64_t seconds) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (seconds != 0) {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    limit.rlim_cur = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + seconds);
  }
  ::setrlimit(RLIMIT_CPU, &limit);
}

ProfileReply ended(TaskOutcome outcome, std::string message) {
  ProfileReply reply;
  reply.outcome = outcome;
  reply.message = std::move(message);
  return reply;
}

// Other candidates can run where there is no library of products.
bool lacks_library(const common::Plan& plan, const common::Device& device) {
  bool wanted = std::any_of(plan.kernels.begin(), plan.kernels.end(),
                            [](const common::PlanKernel& kernel) { return kernel.library; });
  return wanted && !device.has_gemm();
}

// Who is to blame for an error of the executor.
TaskOutcome executor_outcome(Code code) {
  if (code == Code::kVerification) return TaskOutcome::kWrong;
  // A plan that does not load anywhere, or asks for impossible sizes.
  if (code == Code::kCorrupt || code == Code::kInvalidInput || code == Code::kUnsupported) {
    return TaskOutcome::kCompileError;
  }
  return TaskOutcome::kInfra;
}
ProfileReply blamed(const Error& error, const common::Device& device) {
  ProfileReply reply = ended(executor_outcome(error.code), error.message);
  if (device.is_faulted()) reply.outcome = TaskOutcome::kCrash;
  reply.damaged = device.is_faulted() || error.code == Code::kDeviceSick;
  return reply;
}

class ExecutorChild {
 public:
  ExecutorChild(int fd, const ExecutorDevice& device)
      : fd_(fd), source_(device), verifier_(kept_bytes_max(device)) {}

  int serve() {
    while (true) {
      auto frame = common::read_frame(fd_);
      if (!frame.ok()) return 0;  // the parent is gone
      auto request = decode_request(*frame);
      frame = common::Bytes{};
      ProfileReply reply =
          request.ok() ? handle(*request) : ended(TaskOutcome::kInfra, request.error().message);
      if (!common::write_frame(fd_, encode(reply)).ok()) return 0;
    }
  }

 private:
  void enter(ProfileStage stage) {
    if (stage == stage_) return;
    stage_ = stage;
    limit_processor_time(runs_candidate(stage) ? candidate_seconds_ : 0);
    ProfileReply note;
    note.kind = ProfileReply::Kind::kStage;
    note.stage = stage;
    (void)common::write_frame(fd_, encode(note));  // a parent that is gone shows at the next read
  }

  Result<std::shared_ptr<const Graph>> graph_of(const ProfileRequest& request) {
    for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
      if (it->first != request.graph) continue;
      graphs_.splice(graphs_.begin(), graphs_, it);
      return graphs_.front().second;
    }
    if (request.graph_bytes.empty()) return std::shared_ptr<const Graph>();
    LFARM_ASSIGN_OR_RETURN(Graph graph, common::decode_graph(request.graph_bytes));
    graphs_.emplace_front(request.graph, std::make_shared<const Graph>(std::move(graph)));
    if (graphs_.size() > kGraphsMax) graphs_.pop_back();
    return graphs_.front().second;
  }

  std::string lock_name(const common::Device& device) const {
    return source_.name + device.hardware_id();
  }

  Result<common::Device*> device_for(uint32_t threads) {
    int count = static_cast<int>(std::max(1u, threads));
    auto found = devices_.find(count);
    if (found != devices_.end()) return found->second.get();
    if (devices_.size() >= kDevicesMax) {
      verifier_.forget_residents();
      devices_.clear();
    }
    LFARM_ASSIGN_OR_RETURN(std::unique_ptr<common::Device> opened, source_.open(count));
    return (devices_[count] = std::move(opened)).get();
  }

  Result<std::unique_ptr<common::Executor>> load(const ProfileRequest& request,
                                                 const common::Plan& plan, common::Device& device,
                                                 bool guard) {
    auto source = [&](const Digest& digest) -> Result<common::ByteView> {
      for (const ObjectBlob& object : request.objects) {
        if (object.digest == digest) return common::ByteView(object.bytes);
      }
      return common::corrupt(cat("object ", digest.short_hex(), " did not come with the request"));
    };
    enter(ProfileStage::kCandidate);
    common::ExecutorOptions options;
    options.guard = guard;
    options.one_by_one = request.one_by_one || source_.debug_sequential;
    if (source_.debug_sequential) {
      options.on_call = [](const std::string& call) { std::cerr << call << "\n"; };
    }
    options.cold_caches = true;
    auto executor = common::Executor::load(plan, source, device, options);
    enter(ProfileStage::kReference);
    return executor;
  }

  ProfileReply handle(const ProfileRequest& request) {
    stage_ = ProfileStage::kReference;
    candidate_seconds_ = kProcessorTimeSlack + int64_t{request.candidate_ms} *
                                                   std::max(1u, request.measure.threads) / 1000;
    auto graph = graph_of(request);
    if (!graph.ok()) return ended(TaskOutcome::kInfra, graph.error().message);
    if (*graph == nullptr) {
      ProfileReply reply;
      reply.kind = ProfileReply::Kind::kNeedGraph;
      return reply;
    }
    Status fits = common::plan_fits(request.plan, **graph);
    for (const common::Plan& rival : request.rivals) {
      if (fits.ok()) fits = common::plan_fits(rival, **graph);
    }
    if (!fits.ok()) return ended(executor_outcome(fits.error().code), fits.error().message);
    auto device = device_for(request.measure.threads);
    if (!device.ok()) return ended(TaskOutcome::kInfra, device.error().message);
    // Of a GPU's time a run takes from whatever is measured beside it; processors are many.
    std::unique_ptr<DeviceLock> among_others;
    verifier_.set_observer([&, name = lock_name(**device)](bool candidate_runs) {
      if (!candidate_runs) {
        among_others.reset();
      } else if (!(*device)->uses_host_memory()) {
        among_others = std::make_unique<DeviceLock>(name, DeviceLock::Mode::kAmongOthers);
      }
      enter(candidate_runs ? ProfileStage::kCandidate : ProfileStage::kReference);
    });
    ProfileReply reply = request.rivals.empty() ? verify_and_measure(request, **graph, **device)
                                                : compare_rivals(request, **graph, **device);
    verifier_.set_observer({});
    return reply;
  }

  // One set of inputs for each of the sizes that are measured.
  using SizedInputs = std::vector<std::vector<common::HostTensor>>;

  static std::vector<common::WeightedSizes> measured_sizes(const ProfileRequest& request) {
    if (!request.measure.sizes.empty() || request.verify.sizes.empty())
      return request.measure.sizes;
    return {{request.verify.sizes.front(), 1}};
  }
  static std::vector<double> weights_of(const ProfileRequest& request) {
    std::vector<double> weights;
    for (const auto& each : measured_sizes(request)) weights.push_back(each.weight);
    return weights;
  }
  // Of one size: the time is for all of them, and so is what is too slow.
  static common::MeasureOptions options_at(const common::MeasureOptions& all, double weight,
                                           size_t sizes) {
    common::MeasureOptions one = all;
    one.time_max_ms = std::max<uint32_t>(1, all.time_max_ms / static_cast<uint32_t>(sizes));
    one.give_up_ns = static_cast<uint64_t>(static_cast<double>(all.give_up_ns) / weight);
    return one;
  }

  Result<SizedInputs> measured_inputs(const ProfileRequest& request, const Graph& graph) {
    SizedInputs all;
    for (const auto& each : measured_sizes(request)) {
      LFARM_ASSIGN_OR_RETURN(auto inputs,
                             verifier_.inputs_at(request.graph, graph, request.verify, each.sizes));
      all.push_back(std::move(inputs));
    }
    if (all.empty()) return common::internal_error("a task asks for no inputs to measure with");
    return all;
  }

  // Binds inputs `s`; the executor has those before.
  Result<std::vector<common::HostTensor>> bind(const ProfileRequest& request,
                                               common::Executor& executor, const Graph& graph,
                                               const SizedInputs& inputs, size_t s) {
    bool kept = s > 0 && has_same_weights(graph, inputs[s - 1], inputs[s]);
    return verifier_.bind(executor, request.graph, request.verify, inputs[s], kept);
  }

  Result<Measurement> measure_sizes(const ProfileRequest& request, const Graph& graph,
                                    const SizedInputs& inputs, common::Executor& executor) {
    const std::vector<double> weights = weights_of(request);
    std::vector<Measurement> all;
    for (size_t s = 0; s < inputs.size(); ++s) {
      LFARM_ASSIGN_OR_RETURN(auto user, bind(request, executor, graph, inputs, s));
      auto options = options_at(request.measure, weights[s], inputs.size());
      LFARM_ASSIGN_OR_RETURN(Measurement one, measure(executor, user, options));
      all.push_back(std::move(one));
    }
    return weighted_mean(all, weights);
  }

  Result<Comparison> compare_sizes(const ProfileRequest& request, const Graph& graph,
                                   const SizedInputs& inputs,
                                   const std::vector<std::unique_ptr<common::Executor>>& rivals) {
    const std::vector<double> weights = weights_of(request);
    std::vector<Comparison> all;
    for (size_t s = 0; s < inputs.size(); ++s) {
      SizedInputs user;
      std::vector<Loaded> programs;
      for (const auto& rival : rivals) {
        LFARM_ASSIGN_OR_RETURN(auto bound, bind(request, *rival, graph, inputs, s));
        user.push_back(std::move(bound));
      }
      for (size_t k = 0; k < rivals.size(); ++k) programs.push_back({rivals[k].get(), user[k]});
      auto options = options_at(request.measure, weights[s], inputs.size());
      LFARM_ASSIGN_OR_RETURN(Comparison one, compare(programs, options));
      all.push_back(std::move(one));
    }
    return weighted_mean(all, weights);
  }

  // Measures while nobody else does on this device, and again, as long as that takes little time,
  // when the reference work beside it says that the machine was slower than it can be. `pace`: what
  // it was at in the end.
  template <class Body>
  auto alone_at_usual_pace(common::Device& device, double& pace, Body&& measure_once) {
    // Waiting for the lock is not the candidate's time, and nobody stops who may hold it.
    enter(ProfileStage::kTurn);
    auto alone = std::make_optional<DeviceLock>(lock_name(device));
    common::SteadyClock clock;
    for (int64_t start_ns = clock.now_ns();;) {
      double before = device.uses_host_memory() ? pace_.measure() : 0;
      enter(ProfileStage::kMeasured);
      auto result = measure_once();
      enter(ProfileStage::kTurn);
      double after = device.uses_host_memory() ? pace_.measure() : 0;
      pace = std::max(before, after);
      bool is_late = clock.now_ns() - start_ns > kPacePatienceNs;
      if (!result.ok() || pace < kSlowPace || is_late) {
        alone.reset();
        enter(ProfileStage::kReference);
        return result;
      }
      std::this_thread::sleep_for(kPacePause);
    }
  }

  ProfileReply verify_and_measure(const ProfileRequest& request, const Graph& graph,
                                  common::Device& device) {
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    if (lacks_library(request.plan, device)) {
      return ended(TaskOutcome::kCompileError,
                   device.gemm({}, nullptr, nullptr, nullptr).error().message);
    }
    auto guarded = load(request, request.plan, device, true);
    if (!guarded.ok()) return blamed(guarded.error(), device);
    auto verdict = verifier_.verify(request.graph, graph, **guarded, request.verify);
    guarded->reset();
    if (!verdict.ok()) {
      ProfileReply refusal = blamed(verdict.error(), device);
      refusal.damaged |= verifier_.memory_damaged();
      return refusal;
    }

    ProfileReply reply;
    reply.verify_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    reply.max_error = verdict->max_error;
    start = clock.now_ns();
    auto executor = load(request, request.plan, device, false);
    if (!executor.ok()) return blamed(executor.error(), device);
    auto inputs = measured_inputs(request, graph);
    if (!inputs.ok()) {
      ProfileReply refusal = blamed(inputs.error(), device);
      if (!device.is_faulted()) refusal.outcome = TaskOutcome::kInfra;
      return refusal;
    }
    auto measured = alone_at_usual_pace(
        device, reply.pace, [&] { return measure_sizes(request, graph, *inputs, **executor); });
    if (!measured.ok()) return blamed(measured.error(), device);
    // Without guards temporaries share memory: that must not change the result either.
    Status same = verifier_.check_first_case(request.graph, graph, **executor, request.verify,
                                             inputs->back());
    if (!same.ok()) return blamed(same.error(), device);
    reply.outcome = TaskOutcome::kOk;
    reply.measure_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    reply.prepare_ms = static_cast<double>((*executor)->prepare_ns()) * 1e-6;
    reply.measured = *std::move(measured);
    return reply;
  }

  // All of them were verified before, perhaps by another worker: the first case shows that they
  // compute the same here.
  ProfileReply compare_rivals(const ProfileRequest& request, const Graph& graph,
                              common::Device& device) {
    common::SteadyClock clock;
    int64_t start = clock.now_ns();
    std::vector<std::unique_ptr<common::Executor>> executors;
    for (size_t k = 0; k <= request.rivals.size(); ++k) {
      const common::Plan& plan = k == 0 ? request.plan : request.rivals[k - 1];
      auto executor = load(request, plan, device, false);
      if (!executor.ok()) return blamed(executor.error(), device);
      executors.push_back(std::move(*executor));
    }
    auto inputs = measured_inputs(request, graph);
    if (!inputs.ok()) return blamed(inputs.error(), device);
    ProfileReply reply;
    auto compared = alone_at_usual_pace(
        device, reply.pace, [&] { return compare_sizes(request, graph, *inputs, executors); });
    if (!compared.ok()) return blamed(compared.error(), device);
    for (const auto& executor : executors) {
      Status same = verifier_.check_first_case(request.graph, graph, *executor, request.verify,
                                               inputs->back());
      if (!same.ok()) return blamed(same.error(), device);
    }
    reply.outcome = TaskOutcome::kOk;
    reply.measure_ms = static_cast<double>(clock.now_ns() - start) * 1e-6;
    reply.measured = compared->all[0];
    reply.measured.disturbed = compared->disturbed;
    for (size_t k = 1; k < compared->all.size(); ++k) {
      const Ratio& ratio = compared->ratios[k];
      reply.rivals.push_back({compared->all[k].total_ns, compared->all[k].spread_ns, ratio.median,
                              ratio.low, ratio.high});
    }
    return reply;
  }

  int fd_;
  const ExecutorDevice& source_;
  ProfileStage stage_ = ProfileStage::kReference;
  int64_t candidate_seconds_ = 0;
  std::list<std::pair<Digest, std::shared_ptr<const Graph>>> graphs_;  // newest first
  std::map<int, std::unique_ptr<common::Device>> devices_;             // by thread count
  Verifier verifier_;
  PaceMeter pace_;
};

}  // namespace

int run_executor_child(int fd, const ExecutorDevice& device) {
  common::log_init("lfarm-executor", common::LogLevel::kInfo);
  limit_process(device);
  return_large_blocks();
  return ExecutorChild(fd, device).serve();
}

}  // namespace worker
