#include "tests/chaos/faults.h"

#include <signal.h>

#include <algorithm>

#include "common/base/cat.h"

namespace chaos {
namespace {

using common::cat;

constexpr int64_t kMs = 1'000'000;
// Between the beginnings of two faults, at most two of which are under way at a time.
constexpr uint64_t kPauseMsMin = 100, kPauseMsMax = 1'500;
constexpr size_t kActiveMax = 2;
// How long something stays stopped, full or cut. Now and then it is longer than the farm waits for
// a silent worker (10 s), which must then be given up and come back.
constexpr uint64_t kHoldMsMin = 100, kHoldMsMax = 3'000;
constexpr uint64_t kLongHoldMs = 11'000;
constexpr double kLongHoldChance = 0.05;
// With several coordinators: a handover takes as long as their lease lasts.
constexpr uint64_t kReplicasPauseMs = 10'000;
// With shards all of them work, and most go on.
constexpr uint64_t kShardsPauseMs = 4'000;

bool lasts(Fault fault) { return fault >= Fault::kStopWorker; }

}  // namespace

const char* fault_name(Fault fault) {
  switch (fault) {
    case Fault::kKillWorker:
      return "kill -9 worker";
    case Fault::kKillChild:
      return "kill -9 a worker's child";
    case Fault::kKillCoordinator:
      return "kill -9 coordinator";
    case Fault::kKillSearcher:
      return "kill -9 searcher";
    case Fault::kKillClient:
      return "kill -9 client";
    case Fault::kDrainWorker:
      return "SIGTERM worker";
    case Fault::kStopWorker:
      return "SIGSTOP worker";
    case Fault::kStopChild:
      return "SIGSTOP a worker's child";
    case Fault::kStopCoordinator:
      return "SIGSTOP coordinator";
    case Fault::kFillDisk:
      return "fill the disk";
    case Fault::kCutNetwork:
      return "cut the network";
    case Fault::kCutStore:
      return "cut the shared store";
  }
  return "";
}

Faults::Faults(Farm& farm, uint64_t seed, const std::string& only) : farm_(farm), random_(seed) {
  for (int fault = 0; fault <= static_cast<int>(Fault::kCutStore); ++fault) {
    auto known = static_cast<Fault>(fault);
    if (!only.empty() && only != fault_name(known)) continue;
    bool possible = is_possible(known);
    if (possible) known_.push_back(known);
    if (!possible && !farm.obstacle().empty())
      farm.say(cat("skipped: ", fault_name(known), ", because ", farm.obstacle()));
  }
}

bool Faults::is_possible(Fault fault) const {
  if (fault == Fault::kKillSearcher) return !farm_.searchers().empty();
  if (farm_.replicas() != nullptr) {
    return fault == Fault::kKillWorker || fault == Fault::kKillCoordinator ||
           fault == Fault::kCutStore;
  }
  if (fault == Fault::kCutStore) return false;
  return (fault != Fault::kFillDisk || farm_.disk() != nullptr) &&
         (fault != Fault::kCutNetwork || farm_.network() != nullptr);
}

bool Faults::is_active(Fault fault) const {
  return std::any_of(active_.begin(), active_.end(),
                     [fault](const Active& active) { return active.fault == fault; });
}

pid_t Faults::child_of(size_t worker, uint64_t draw) const {
  std::vector<pid_t> children = farm_.workers()[worker]->children();
  return children.empty() ? 0 : children[draw % children.size()];
}

void Faults::tend(int64_t now_ns) {
  for (size_t k = 0; k < active_.size();) {
    if (now_ns < active_[k].end_ns) {
      ++k;
      continue;
    }
    end(active_[k]);
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(k));
  }
  if (now_ns >= next_ns_ && active_.size() < kActiveMax) begin(now_ns);
}

void Faults::begin(int64_t now_ns) {
  if (known_.empty()) return;
  // All draws come first, so that what a fault finds does not change those after it.
  Fault fault = known_[random_.below(known_.size())];
  uint64_t draw = random_.next();
  uint64_t hold_ms = kHoldMsMin + random_.below(kHoldMsMax - kHoldMsMin);
  if (random_.chance(kLongHoldChance)) hold_ms = kLongHoldMs;
  uint64_t pause_ms = kPauseMsMin + random_.below(kPauseMsMax - kPauseMsMin);
  if (farm_.replicas() != nullptr) {
    pause_ms = farm_.has_shards() ? kShardsPauseMs : kReplicasPauseMs;
  }
  next_ns_ = now_ns + static_cast<int64_t>(pause_ms) * kMs;
  if (is_active(fault)) return;

  Active active{fault, draw % farm_.workers().size(), 0,
                now_ns + static_cast<int64_t>(hold_ms) * kMs};
  Supervised& worker = *farm_.workers()[active.target];
  Supervised& coordinator = *farm_.coordinators()[draw % farm_.coordinators().size()];
  Client& client = *farm_.clients()[draw % farm_.clients().size()];
  std::string whom;
  if (fault == Fault::kKillChild || fault == Fault::kStopChild) {
    active.child = child_of(active.target, draw >> 32);
    if (active.child == 0) return;
    whom = cat(" of ", worker.name());
    ::kill(active.child, fault == Fault::kKillChild ? SIGKILL : SIGSTOP);
  } else if (fault == Fault::kKillWorker) {
    worker.kill();
    whom = cat(" ", worker.name());
  } else if (fault == Fault::kDrainWorker) {
    worker.terminate();
    whom = cat(" ", worker.name());
  } else if (fault == Fault::kStopWorker) {
    worker.stop();
    whom = cat(" ", worker.name());
  } else if (fault == Fault::kKillCoordinator) {
    coordinator.kill();
    if (farm_.replicas() != nullptr) whom = cat(", ", coordinator.name());
  } else if (fault == Fault::kKillSearcher) {
    Supervised& searcher = *farm_.searchers()[draw % farm_.searchers().size()];
    searcher.kill();
    whom = cat(", ", searcher.name());
  } else if (fault == Fault::kStopCoordinator) {
    coordinator.stop();
  } else if (fault == Fault::kCutStore) {
    farm_.replicas()->cut();
  } else if (fault == Fault::kKillClient) {
    client.kill();
    whom = cat(" ", client.name());
  } else if (fault == Fault::kFillDisk) {
    farm_.set_disk_full(true);
    // A store that runs has room set aside for a while; one that opens needs some at once.
    if ((draw & 1) != 0) {
      coordinator.kill();
      whom = " and kill -9 coordinator";
    }
  } else if (fault == Fault::kCutNetwork) {
    common::Status cut = farm_.network()->cut();
    if (!cut.ok()) farm_.complain(cut.error().message);
  }
  ++counts_[fault];
  farm_.say(cat(fault_name(fault), whom, lasts(fault) ? cat(" for ", hold_ms, " ms") : ""));
  if (lasts(fault)) active_.push_back(active);
}

void Faults::end(const Active& active) {
  switch (active.fault) {
    case Fault::kStopWorker:
      return farm_.workers()[active.target]->resume();
    case Fault::kStopChild:
      // Killed and replaced meanwhile: its number may be anybody's, to whom this says nothing.
      ::kill(active.child, SIGCONT);
      return;
    case Fault::kStopCoordinator:
      return farm_.coordinators()[0]->resume();
    case Fault::kCutStore:
      return farm_.replicas()->heal();
    case Fault::kFillDisk:
      return farm_.set_disk_full(false);
    case Fault::kCutNetwork: {
      common::Status healed = farm_.network()->heal();
      if (!healed.ok()) farm_.complain(healed.error().message);
      return;
    }
    default:
      return;
  }
}

void Faults::heal() {
  for (const Active& active : active_) end(active);
  active_.clear();
}

std::string Faults::summary() const {
  std::string text;
  for (const auto& [fault, count] : counts_) {
    text += cat(text.empty() ? "" : ", ", count, " x ", fault_name(fault));
  }
  return text.empty() ? "no faults" : text;
}

}  // namespace chaos
