#include "farm_describe.h"

#include <variant>

#include "common/base/cat.h"

namespace sim {

using common::cat;
using namespace coordinator::farm;  // NOLINT: the whole vocabulary is what this file is about

namespace {

struct Describe {
  std::string operator()(const WorkerHello& e) const {
    return cat("hello worker ", e.worker, " incarnation ", e.incarnation, " slots ", e.slots);
  }
  std::string operator()(const WorkerCredit& e) const {
    return cat("credit worker ", e.worker, " slots ", e.slots);
  }
  std::string operator()(const WorkerHeartbeat& e) const {
    std::string text = cat("heartbeat worker ", e.worker, " slots ", e.slots, " leases");
    for (const HeldLease& held : e.leases) text += cat(' ', held.task, '/', held.epoch);
    return text;
  }
  std::string operator()(const WorkerDrain& e) const { return cat("drain worker ", e.worker); }
  std::string operator()(const WorkerGone& e) const {
    return cat("gone worker ", e.worker, " clean ", e.clean);
  }
  std::string operator()(const LeaseReturned& e) const {
    return cat("returned ", e.task, '/', e.epoch, " worker ", e.worker);
  }
  std::string operator()(const JobAdded& e) const { return cat("job ", e.job, ' ', e.tenant); }
  std::string operator()(const TaskAdded& e) const {
    return cat("task ", e.task, " job ", e.job, ' ', e.target, " epoch ", e.first_epoch);
  }
  std::string operator()(const TaskResult& e) const {
    return cat("result ", e.task, '/', e.epoch, " worker ", e.worker, ' ', outcome_name(e.outcome));
  }
  std::string operator()(const TaskWithdrawn& e) const { return cat("withdrawn task ", e.task); }
  std::string operator()(const JobCancelled& e) const { return cat("cancelled job ", e.job); }
  std::string operator()(const JobRemoved& e) const { return cat("removed job ", e.job); }
  std::string operator()(const FingerprintBanned& e) const {
    return cat("banned ", e.fingerprint.short_hex());
  }
  std::string operator()(const Tick&) const { return "tick"; }

  std::string operator()(const SendTask& a) const {
    return cat("  send ", a.task, '/', a.epoch, " worker ", a.worker, " attempt ", a.attempt);
  }
  std::string operator()(const RevokeLease& a) const {
    return cat("  revoke ", a.task, '/', a.epoch, " worker ", a.worker);
  }
  std::string operator()(const TaskCommitted& a) const {
    return cat("  committed ", a.task, ' ', outcome_name(a.outcome), " result ", a.result);
  }
  std::string operator()(const TaskFailedInfra& a) const { return cat("  given up ", a.task); }
  std::string operator()(const JobStopped& a) const { return cat("  stopped job ", a.job); }
  std::string operator()(const TaskRequeued& a) const {
    return cat("  requeued ", a.task, ": ", requeue_reason_name(a.reason));
  }
  std::string operator()(const TaskRefused& a) const { return cat("  refused task ", a.task); }
  std::string operator()(const JobRefused& a) const { return cat("  refused job ", a.job); }
  std::string operator()(const WorkerRefused& a) const {
    return cat("  refused worker ", a.worker);
  }
  std::string operator()(const CandidateQuarantined& a) const {
    return cat("  quarantined ", a.fingerprint.short_hex());
  }
  std::string operator()(const WorkerLost& a) const {
    return cat("  lost worker ", a.worker, " restarted ", a.restarted);
  }
  std::string operator()(const WorkerUnknown& a) const {
    return cat("  unknown worker ", a.worker);
  }
  std::string operator()(const WorkerSuspended& a) const {
    return cat("  suspended worker ", a.worker, " until ", a.until_ns);
  }
  std::string operator()(const WorkerDrained& a) const {
    return cat("  drained worker ", a.worker);
  }
  std::string operator()(const NoWorkerForTarget& a) const {
    return cat("  no worker for job ", a.job, ' ', a.target);
  }
  std::string operator()(const NoWorkerCleared& a) const {
    return cat("  a worker for job ", a.job, ' ', a.target);
  }
  std::string operator()(const StaleResult& a) const { return cat("  stale ", a.task); }
};

}  // namespace

std::string describe(const Event& event) { return std::visit(Describe{}, event); }
std::string describe(const Action& action) { return std::visit(Describe{}, action); }

}  // namespace sim
